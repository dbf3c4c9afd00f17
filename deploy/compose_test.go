// Package deploy_test reads both sides of what is deployed: the files here and docker-compose.yml on one, the program that they start
// on the other. No container runs in it.
package deploy_test

import (
	"encoding/xml"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"gopkg.in/yaml.v3"

	"github.com/warpline/warpline/proto/stream"
)

const root = ".."

// service is what the tests look at of a compose service.
type service struct {
	Image       string
	Build       any
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck struct{ Test []string }
}

type compose struct {
	Services map[string]service
	Volumes  map[string]any
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var variable = regexp.MustCompile(`\$\{(\w+)(?::?([-?])([^}]*))?\}`)

// environment is .env.example.
func environment(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{}
	for line := range strings.Lines(read(t, filepath.Join(root, ".env.example"))) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || value == "" {
			t.Fatalf(".env.example: %q is no NAME=value", line)
		}
		env[name] = value
	}
	return env
}

// load reads docker-compose.yml as compose does with a .env that is .env.example, unchanged.
func load(t *testing.T) compose {
	t.Helper()
	env := environment(t)
	text := variable.ReplaceAllStringFunc(read(t, filepath.Join(root, "docker-compose.yml")), func(v string) string {
		m := variable.FindStringSubmatch(v)
		if value, ok := env[m[1]]; ok {
			return value
		}
		if m[2] == "-" {
			return m[3]
		}
		t.Errorf("docker-compose.yml: %s is not in .env.example and has no default", v)
		return ""
	})
	var c compose
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestShape(t *testing.T) {
	c := load(t)
	want := []string{"clickhouse", "gateway-1", "gateway-2", "grafana", "nats-1", "nats-2", "nats-3",
		"prometheus", "sink", "web", "worker-1", "worker-2"}
	var got []string
	for name := range c.Services {
		got = append(got, name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("services %v, want %v", got, want)
	}
}

func TestEveryVariableIsDefinedAndUsed(t *testing.T) {
	load(t) // tells those that are not defined
	text := read(t, filepath.Join(root, "docker-compose.yml"))
	for name := range environment(t) {
		if !strings.Contains(text, "${"+name) {
			t.Errorf(".env.example sets %s, which docker-compose.yml does not use", name)
		}
	}
}

func TestImagesArePinned(t *testing.T) {
	tag := regexp.MustCompile(`^[a-z0-9./-]+:v?[0-9][\w.-]*$`)
	for name, s := range load(t).Services {
		if s.Build == nil && !tag.MatchString(s.Image) {
			t.Errorf("%s: image %q has no version tag", name, s.Image)
		}
	}
	stages := map[string]bool{}
	for line := range strings.Lines(read(t, filepath.Join(root, "Dockerfile"))) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "FROM" {
			continue
		}
		if !tag.MatchString(f[1]) {
			t.Errorf("Dockerfile: image %q has no version tag", f[1])
		}
		if len(f) == 4 {
			stages[f[3]] = true
		}
	}
	for _, m := range regexp.MustCompile(`--from=(\S+)`).FindAllStringSubmatch(read(t, filepath.Join(root, "Dockerfile")), -1) {
		if !stages[m[1]] {
			t.Errorf("Dockerfile copies from stage %q, which is not there", m[1])
		}
	}
}

// The Go that builds the image must be able to build the module.
func TestGoVersionOfTheImage(t *testing.T) {
	mod := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, filepath.Join(root, "go.mod")))
	image := regexp.MustCompile(`FROM golang:(\d+\.\d+)`).FindStringSubmatch(read(t, filepath.Join(root, "Dockerfile")))
	if mod == nil || image == nil || mod[1] != image[1] {
		t.Errorf("go.mod says %v, Dockerfile %v", mod, image)
	}
}

// What the module requires by itself is there for a reason, which go.mod says.
func TestEveryDependencyHasAReason(t *testing.T) {
	required := regexp.MustCompile(`(?m)^\t(\S+) v\S+(.*)$`).FindAllStringSubmatch(read(t, filepath.Join(root, "go.mod")), -1)
	if len(required) < 20 {
		t.Fatalf("only %d requirements found", len(required))
	}
	for _, m := range required {
		if reason, ok := strings.CutPrefix(strings.TrimSpace(m[2]), "// "); !ok || reason == "" {
			t.Errorf("go.mod does not say what %s is for", m[1])
		}
	}
}

func TestMountedFilesAndVolumesExist(t *testing.T) {
	c := load(t)
	used := map[string]bool{}
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, ok := strings.Cut(v, ":")
			if !ok {
				t.Errorf("%s: volume %q has no target", name, v)
			}
			if strings.HasPrefix(source, "./") {
				if _, err := os.Stat(filepath.Join(root, source)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			used[source] = true
			if _, ok := c.Volumes[source]; !ok {
				t.Errorf("%s: volume %q is not declared", name, source)
			}
		}
	}
	for v := range c.Volumes {
		if !used[v] {
			t.Errorf("volume %q is not used", v)
		}
	}
}

func TestDependenciesExist(t *testing.T) {
	c := load(t)
	for name, s := range c.Services {
		for on, how := range s.DependsOn {
			d, ok := c.Services[on]
			if !ok {
				t.Errorf("%s depends on %q, which is no service", name, on)
			}
			if how.Condition == "service_healthy" && len(d.Healthcheck.Test) == 0 {
				t.Errorf("%s waits for the health of %s, which has no healthcheck", name, on)
			}
		}
	}
}

func TestPublishedPortsAreDistinctAndOnLoopback(t *testing.T) {
	seen := map[string]string{}
	for name, s := range load(t).Services {
		for _, p := range s.Ports {
			f := strings.Split(p, ":")
			if len(f) != 3 || f[0] != "127.0.0.1" {
				t.Errorf("%s: port %q is not bound to 127.0.0.1 by default", name, p)
				continue
			}
			if other := seen[f[1]]; other != "" {
				t.Errorf("%s and %s both publish port %s", name, other, f[1])
			}
			seen[f[1]] = name
		}
	}
}

// program builds the binary once and returns its path.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "warpline-deploy-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "warpline")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/warpline")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return string(out), err
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// Every command line is given to the program itself, with its environment, as a question for the settings in force: that refuses
// unknown flags and values that the command would refuse. Variables must be settings that come back from their variable.
func TestProgramTakesEveryCommandLine(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, path)
	}
	for name, s := range load(t).Services {
		if s.Build == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(path, append(slices.Clone(s.Command), "--print-config")...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
			for k, v := range s.Environment {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %v\n%s", s.Command, err, out)
			}
			for k := range s.Environment {
				if !strings.HasPrefix(k, "WARPLINE_") {
					t.Errorf("%s is no variable of warpline", k)
				}
				if !regexp.MustCompile(`# ` + k + `(,|\n)`).Match(out) {
					t.Errorf("%s sets nothing of %s:\n%s", k, s.Command[0], out)
				}
			}
			// Others in the network must reach what it listens on.
			for i, arg := range s.Command {
				if strings.HasSuffix(arg, "listen") && !strings.HasPrefix(s.Command[i+1], "0.0.0.0:") {
					t.Errorf("%s %s cannot be reached by the other services", arg, s.Command[i+1])
				}
			}
		})
	}
}

// addresses are host:port of every service that can be read from its own side.
func addresses(t *testing.T, c compose) map[string]bool {
	t.Helper()
	all := map[string]bool{"clickhouse:8123": true, "clickhouse:9000": true, "prometheus:9090": true, "grafana:3000": true} // the images' own
	for name, s := range c.Services {
		for i, arg := range s.Command {
			if strings.HasSuffix(arg, "listen") {
				_, port, err := net.SplitHostPort(s.Command[i+1])
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				all[name+":"+port] = true
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?s)<prometheus>.*?<port>(\d+)</port>`).
		FindAllStringSubmatch(read(t, "clickhouse/config.d/warpline.xml"), -1) {
		all["clickhouse:"+m[1]] = true
	}
	conf := natsConfig(t)
	for name := range c.Services {
		if strings.HasPrefix(name, "nats-") {
			all[net.JoinHostPort(name, strconv.Itoa(conf.Port))], all[net.JoinHostPort(name, strconv.Itoa(conf.HTTPPort))] = true, true
		}
	}
	return all
}

func TestAddressesLeadToServices(t *testing.T) {
	c := load(t)
	known := addresses(t, c)
	check := func(where, addr string) {
		if !known[addr] {
			t.Errorf("%s names %s, where nothing listens", where, addr)
		}
	}
	for name, s := range c.Services {
		for i, arg := range s.Command {
			if arg == "--clickhouse" || arg == "--clickhouse-http" {
				check(name, s.Command[i+1])
			}
		}
		for url := range strings.SplitSeq(s.Environment["WARPLINE_NATS"], ",") {
			if url != "" {
				check(name, url[strings.LastIndex(url, "@")+1:])
			}
		}
		for _, p := range s.Ports {
			check(name, name+":"+p[strings.LastIndex(p, ":")+1:])
		}
	}
	var prometheus struct {
		RuleFiles []string `yaml:"rule_files"`
		Scrape    []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	decode(t, "prometheus/prometheus.yml", &prometheus)
	scraped := map[string]bool{}
	for _, s := range prometheus.Scrape {
		for _, group := range s.Static {
			for _, target := range group.Targets {
				check("prometheus.yml", target)
				scraped[target[:strings.Index(target, ":")]] = true
			}
		}
	}
	for name, s := range c.Services {
		if s.Build != nil && !scraped[name] {
			t.Errorf("prometheus.yml does not scrape %s", name)
		}
	}
	for _, f := range prometheus.RuleFiles {
		if _, err := os.Stat(filepath.Join("prometheus", f)); err != nil {
			t.Errorf("prometheus.yml: %v", err)
		}
	}
}

// A worker without a ClickHouse does not know the names that have left NATS after 7 days.
func TestWorkersReadOldNames(t *testing.T) {
	for name, s := range load(t).Services {
		if len(s.Command) > 0 && s.Command[0] == "worker" && !slices.Contains(s.Command, "--clickhouse") {
			t.Errorf("%s has no --clickhouse: %v", name, s.Command)
		}
	}
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// natsConfig is nats.conf as the server itself reads it.
func natsConfig(t *testing.T) *server.Options {
	t.Helper()
	for k, v := range environment(t) {
		t.Setenv(k, v)
	}
	o, err := server.ProcessConfigFile("nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestNATSConfig(t *testing.T) {
	o, c := natsConfig(t), load(t)
	if o.MaxPayload != stream.MaxPayloadBytes {
		t.Errorf("max_payload is %d, warpline needs %d", o.MaxPayload, stream.MaxPayloadBytes)
	}
	env := environment(t)
	if o.Username != "warpline" || o.Password != env["NATS_PASSWORD"] {
		t.Errorf("user %q with password %q, .env.example has %q", o.Username, o.Password, env["NATS_PASSWORD"])
	}
	if !o.JetStream || o.StoreDir != "/data" {
		t.Errorf("JetStream %v in %q", o.JetStream, o.StoreDir)
	}
	if len(o.Routes) != 3 {
		t.Errorf("%d routes, want 3", len(o.Routes))
	}
	for _, r := range o.Routes {
		if _, ok := c.Services[r.Hostname()]; !ok || r.Port() != strconv.Itoa(o.Cluster.Port) {
			t.Errorf("route %s leads nowhere", r)
		}
	}
	names := map[string]bool{}
	for name, s := range c.Services {
		if !strings.HasPrefix(name, "nats-") {
			continue
		}
		if i := slices.Index(s.Command, "--name"); i < 0 || s.Command[i+1] != name {
			t.Errorf("%s is not named so on its command line: %v", name, s.Command)
		}
		names[name] = true
		for _, v := range s.Volumes {
			if strings.HasSuffix(v, ":/data") && v != name+":/data" {
				t.Errorf("%s stores in %s", name, v)
			}
		}
	}
	// Streams of the layout must fit, with all copies on every node.
	bytes := func(name string) int64 {
		v := c.Services["gateway-1"].Environment[name]
		n, ok := strings.CutSuffix(v, "GiB")
		if !ok || len(n) != 1 {
			t.Fatalf("%s: %q", name, v)
		}
		return int64(n[0]-'0') << 30
	}
	if need := bytes("WARPLINE_INGEST_MAX") + bytes("WARPLINE_ROWS_MAX") + 7*bytes("WARPLINE_BUCKET_MAX"); o.JetStreamMaxStore < need {
		t.Errorf("max_file_store is %d, the streams may take %d", o.JetStreamMaxStore, need)
	}
}

func TestClickHouseConfigIsXML(t *testing.T) {
	for _, path := range []string{"clickhouse/config.d/warpline.xml", "clickhouse/users.d/warpline.xml"} {
		d := xml.NewDecoder(strings.NewReader(read(t, path)))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
	}
	users := read(t, "clickhouse/users.d/warpline.xml")
	c := load(t)
	for _, m := range regexp.MustCompile(`from_env="(\w+)"`).FindAllStringSubmatch(users, -1) {
		if c.Services["clickhouse"].Environment[m[1]] == "" {
			t.Errorf("users.d takes %s, which the service does not have", m[1])
		}
	}
	sink := c.Services["sink"]
	i := slices.Index(sink.Command, "--clickhouse-user")
	if i < 0 || !strings.Contains(users, "<"+sink.Command[i+1]+">") {
		t.Errorf("the sink's user is not in users.d: %v", sink.Command)
	}
	if sink.Environment["WARPLINE_CLICKHOUSE_PASSWORD"] != c.Services["clickhouse"].Environment["CLICKHOUSE_WRITER_PASSWORD"] {
		t.Error("the sink's password is not the writer's")
	}
	if !strings.Contains(users, "<readonly>2</readonly>") {
		t.Error("user default may write")
	}
}
