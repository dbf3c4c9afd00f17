package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// The users of an engine that can do anything: the writer may create and write, the reader only reads, and only the database that
// Config.Readable names. User `default`, which ClickHouse insists on, may do nothing.
const (
	Writer = "warpline"
	Reader = "reader"
)

// defaultMemoryLimit bounds an engine whose Config does not set a limit: room for one 256 MB insert and a merge beside it, and still a
// laptop's share.
const defaultMemoryLimit = 2 << 30

// connectionRoom is added to MemoryLimitBytes in the server's bound, for the buffers of a thousand connections. ClickHouse counts 1 to 2
// MiB for each connection before it knows the user, and a refused one uses only some pages of that; without this room they would take the
// writer's.
const connectionRoom = 1000 * sessionBytes

// Config says where an engine lives and on which ports it answers. Only Dir is required.
type Config struct {
	// Dir is the engine's folder; it is created when missing. One engine at a time uses it.
	Dir string
	// ListenHost is the loopback address to listen on; "" means 127.0.0.1. Others are refused,
	// because user `default` has no password, and nothing is encrypted.
	ListenHost string
	// HTTPPort and TCPPort are the ports of the HTTP and the native protocol; 0 picks a free one.
	HTTPPort, TCPPort int
	// Password is the writer's, ReaderPassword the reader's; "" means one that is made at the first
	// start and kept in Secrets/writer-password or Secrets/reader-password.
	Password, ReaderPassword string
	// Secrets is the folder of the two; "" means Dir. A writer-password that an earlier version left
	// in Dir is moved there.
	Secrets string
	// Readable is the database that the reader may read; "" means warpline, "*" all (for tests that
	// make databases of their own).
	Readable string
	// Library is the path of libchdb; "" means Locate.
	Library string
	// NoReader leaves the reader out.
	NoReader bool
	// Slots are users through which tenants read; the zero value has none.
	Slots Slots
	// Extra are profiles, quotas and users in the words of a users file, for tests of users that SQL makes on a server: this engine knows
	// those of its file alone.
	Extra struct{ Profiles, Quotas, Users string }
	// MemoryLimitBytes bounds what the writer's queries allocate together; the reader's get 40 % of it, merges half. ClickHouse's own bound,
	// over all, is this and connectionRoom. 0 means 2 GiB.
	MemoryLimitBytes int64
	slotSecret       string

	// Temporary makes the child remove Dir when it ends, also when it ends because its parent died. It is for engines of tests.
	Temporary bool
	// Progress receives what Locate prints when it has to fetch the library; nil prints nothing.
	Progress io.Writer
	// Logger receives the events of a supervised engine; nil means slog.Default.
	Logger *slog.Logger
}

// childConfig is what the child process reads: everything is decided, nothing has to be looked up.
type childConfig struct {
	Library    string `json:"library"`
	ConfigXML  string `json:"config_xml"`
	Data       string `json:"data"`
	Logs       string `json:"logs"`
	Ports      []int  `json:"ports"` // the only ones that it may listen on
	Script     string `json:"script"`
	Standalone bool   `json:"standalone"`       // no parent holds stdin: only signals end it
	Remove     string `json:"remove,omitempty"` // folder to remove at the end
}

// Prepare fills in what cfg leaves open (library, ports, password), writes the engine's
// configuration into cfg.Dir and returns the filled configuration with the path to hand to
// RunChild. standalone engines do not watch their stdin; only a signal ends them.
func Prepare(ctx context.Context, cfg Config, standalone bool) (Config, string, error) {
	cfg, err := cfg.filled(ctx)
	if err != nil {
		return cfg, "", err
	}
	path, err := cfg.write(standalone)
	return cfg, path, err
}

func (cfg Config) filled(ctx context.Context) (Config, error) {
	var err error
	if cfg.Dir == "" {
		return cfg, errors.New("engine: no folder: set Config.Dir")
	}
	cfg.Dir, err = filepath.Abs(cfg.Dir)
	if err != nil {
		return cfg, fmt.Errorf("engine: %w", err)
	}
	if cfg.ListenHost == "" {
		cfg.ListenHost = "127.0.0.1"
	}
	if ip := net.ParseIP(cfg.ListenHost); ip == nil || !ip.IsLoopback() {
		return cfg, fmt.Errorf("engine: listen host %q is not a loopback address, and user default has no password; use 127.0.0.1, %s",
			cfg.ListenHost, elsewhere)
	}
	if cfg.MemoryLimitBytes == 0 {
		cfg.MemoryLimitBytes = defaultMemoryLimit
	}
	if cfg.Readable == "" {
		cfg.Readable = "warpline"
	}
	if cfg.MemoryLimitBytes < 0 {
		return cfg, fmt.Errorf("engine: memory limit of %d bytes; give a positive number or 0 for the default", cfg.MemoryLimitBytes)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	for _, sub := range []string{"config", "data", "logs"} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, sub), 0o700); err != nil {
			return cfg, fmt.Errorf("engine: %w", err)
		}
	}
	if err := cfg.fillSecrets(); err != nil {
		return cfg, err
	}
	if cfg.Library == "" {
		cfg.Library, err = Locate(ctx, cfg.Progress)
		if err != nil {
			return cfg, err
		}
	}
	return cfg, cfg.pickPorts(ctx)
}

// portPatience is how long a named port may still be held: an engine that was killed a moment ago keeps its sockets until the kernel
// has taken its memory apart.
const portPatience = 3 * time.Second

// pickPorts replaces zero ports by free ones and checks that the others are free, since ClickHouse
// would only say so in its log. All are held until each is chosen, so that no two are the same.
func (cfg *Config) pickPorts(ctx context.Context) error {
	for _, p := range []struct {
		what string
		port *int
	}{{"HTTP", &cfg.HTTPPort}, {"native", &cfg.TCPPort}} {
		l, err := cfg.listen(ctx, *p.port)
		if err != nil {
			return fmt.Errorf("engine: %s port: %w; stop what holds it or name another port", p.what, err)
		}
		defer l.Close()
		*p.port = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// listen binds a port, and waits for a named one to be freed. A free one is looked for below the range that systems hand out to outgoing
// connections: there, a client that keeps dialing a dead engine would sooner or later connect to itself and hold the port.
func (cfg *Config) listen(ctx context.Context, port int) (l net.Listener, err error) {
	if port == 0 {
		for range 100 {
			l, err = net.Listen("tcp", net.JoinHostPort(cfg.ListenHost, strconv.Itoa(10000+mathrand.IntN(22000))))
			if err == nil {
				return l, nil
			}
		}
		return nil, err
	}
	for deadline := time.Now().Add(portPatience); ; {
		l, err = net.Listen("tcp", net.JoinHostPort(cfg.ListenHost, strconv.Itoa(port)))
		if err == nil || time.Now().After(deadline) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (cfg Config) write(standalone bool) (string, error) {
	at := func(parts ...string) string { return filepath.Join(append([]string{cfg.Dir}, parts...)...) }
	values := map[string]any{
		"Host": cfg.ListenHost, "HTTP": cfg.HTTPPort, "TCP": cfg.TCPPort,
		"Memory": cfg.MemoryLimitBytes, "ServerMemory": cfg.MemoryLimitBytes + connectionRoom, "MergeMemory": cfg.MemoryLimitBytes / 2,
		"Log": at("logs", "engine.log"), "Users": at("config", "users.xml"),
		"Writer": Writer, "WriterSHA256": sha256Hex(cfg.Password), "Reader": cfg.reader(), "ReaderSHA256": sha256Hex(cfg.ReaderPassword),
		"Readable": quotedDatabase(cfg.Readable), "TemporaryData": int64(temporaryData), "Bounds": readerBounds(cfg.MemoryLimitBytes),
		"Changeable": changeable,
		"SlotUsers":  cfg.slotUsers(), "SlotDatabase": cfg.Slots.Database, "SlotBounds": boundsOfSlots(cfg.MemoryLimitBytes),
		"Extra":          cfg.Extra,
		"SlotChangeable": slices.DeleteFunc(slices.Clone(changeable), func(name string) bool { return strings.HasPrefix(name, "max_") }),
	}
	conf := childConfig{
		Library: cfg.Library, ConfigXML: at("config", "config.xml"), Data: at("data"), Logs: at("logs"),
		Ports:  []int{cfg.HTTPPort, cfg.TCPPort},
		Script: at("config", "listen.sql"), Standalone: standalone,
	}
	if cfg.Temporary {
		conf.Remove = cfg.Dir
	}
	child, err := json.MarshalIndent(conf, "", "  ")
	if err != nil {
		return "", fmt.Errorf("engine: %w", err)
	}
	files := []struct {
		name string
		body []byte
	}{
		{"config.xml", render(serverTemplate, values)},
		{"users.xml", render(usersTemplate, values)},
		{"listen.sql", []byte("SYSTEM START LISTEN TCP;\nSYSTEM START LISTEN HTTP;\n")},
		{"child.json", child},
	}
	for _, f := range files {
		if err := replaceFile(at("config", f.name), f.body); err != nil {
			return "", fmt.Errorf("engine: write its configuration: %w", err)
		}
	}
	return at("config", "child.json"), nil
}

// reader is the name of the reader, "" where there is none.
func (cfg Config) reader() string {
	if cfg.NoReader {
		return ""
	}
	return Reader
}

// render fills a template of this package; it cannot fail on the values that write gives it.
func render(t *template.Template, values map[string]any) []byte {
	var b bytes.Buffer
	if err := t.Execute(&b, values); err != nil {
		panic("BUG: engine configuration template: " + err.Error())
	}
	return b.Bytes()
}

// escape makes any value safe as XML text.
func escape(v any) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(fmt.Sprint(v))) // a bytes.Buffer does not fail
	return b.String()
}

// replaceFile writes a file that only this user reads, whole or not at all.
func replaceFile(path string, body []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, body, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
