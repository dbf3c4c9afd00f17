package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/warpline/warpline/proto/tenant"
)

// ran is what a command did.
type ran struct {
	code           int
	stdout, stderr string
}

// runIn runs a command in this process, as main does.
func runIn(t *testing.T, env map[string]string, args ...string) ran {
	t.Helper()
	var out, words output
	p := &program{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &words, Env: func(k string) (string, bool) {
		v, ok := env[k]
		return v, ok
	}}
	return ran{p.run(args), out.String(), words.String()}
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:1\ndata: from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want string // a line of --print-config
	}{
		{"default", nil, nil, "listen: 127.0.0.1:8080  # default"},
		{"file", nil, []string{"--config", file}, "listen: 127.0.0.1:1  # listen (" + file + " line 1)"},
		{"file by environment", map[string]string{"WARPLINE_CONFIG": file}, nil, "listen: 127.0.0.1:1  # listen (" + file + " line 1)"},
		{"environment over file", map[string]string{"WARPLINE_LISTEN": "127.0.0.1:2"}, []string{"--config=" + file},
			"listen: 127.0.0.1:2  # WARPLINE_LISTEN"},
		{"flag over both", map[string]string{"WARPLINE_LISTEN": "127.0.0.1:2"}, []string{"--config", file, "--listen", "127.0.0.1:3"},
			"listen: 127.0.0.1:3  # --listen"},
		{"file beside a flag", nil, []string{"--config", file, "--listen", "127.0.0.1:3"}, "data: from-file  # data (" + file + " line 2)"},
		{"true by environment", map[string]string{"WARPLINE_CLICKHOUSE_TLS": "true"}, nil, "clickhouse-tls: true  # WARPLINE_CLICKHOUSE_TLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runIn(t, c.env, append([]string{"up", "--print-config"}, c.args...)...)
			if r.code != exitOK || !strings.Contains(r.stdout, c.want+"\n") {
				t.Errorf("exit %d, want the line %q in\n%s%s", r.code, c.want, r.stdout, r.stderr)
			}
		})
	}
}

// pages are the files that people read: all of them but the history of what was.
func pages(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../deploy/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		paths = append(paths, found...)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return filepath.Base(path) == "CHANGELOG.md" })
}

// The pages and the alerts name flags that some command has, or that belong to another program.
func TestTextsNameFlagsThatExist(t *testing.T) {
	others := strings.Fields("--api-key --backend-url --data-binary --host --token --port --user --password --query --detach --build --rm " +
		"--folder --type --all-sessions --agent-jar --api-path --duration --telemetry-sink-dir --format --output " +
		"--remote-store-address --remote-store-insecure --remote-store-bearer-token --node --instrument-cuda-launch --config-path " +
		"--merge-gpu-profiles --debuginfo-strip --use-v --metadata-disable-cpu-label --metadata-disable-thread-id-label " +
		"--metadata-disable-thread-comm-label --offline-mode-storage-path")
	parser, err := kong.New(&commands{}, helpTexts.CloneWith(kong.Vars{"version": ""}))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{"--help": true}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, f := range n.Flags {
			have["--"+f.Name] = true
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(parser.Model.Node)
	seen := 0
	for _, path := range append(pages(t), "../../deploy/prometheus/alerts.yml") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?:^|[\\s`(\"])(--[a-z][a-z-]+)").FindAllStringSubmatch(string(text), -1) {
			if seen++; !have[m[1]] && !slices.Contains(others, m[1]) {
				t.Errorf("%s names %s, which no command has", path, m[1])
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d flags found", seen)
	}
}

// Every command line in the pages has a command, flags and values that this program takes.
func TestTextsNameCommandsThatExist(t *testing.T) {
	line := regexp.MustCompile(`(?m)^    (?:[A-Z_]+=\S+ )*(?:\./warpline|go run \./cmd/warpline) (.*)$`)
	shell := regexp.MustCompile(`"\$\([^)]*\)"|"[^"]*"|'[^']*'`)
	secret := filepath.Join(t.TempDir(), "web-secret") // a file that the pages tell to make
	if err := os.WriteFile(secret, []byte(strings.Repeat("0123456789abcdef", 4)), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range pages(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range line.FindAllStringSubmatch(string(text), -1) {
			command, _, _ := strings.Cut(m[1], " #")
			command = shell.ReplaceAllString(command, "x")
			for _, next := range []string{" >", " | ", " && "} { // what the shell does with it is no argument
				command, _, _ = strings.Cut(command, next)
			}
			command = strings.ReplaceAll(command, "--web-secret-file web-secret", "--web-secret-file "+secret)
			args := append(strings.Fields(command), "--print-config")
			if strings.Contains(command, " delete ") || strings.Contains(command, " purge ") || strings.Contains(command, " drop ") {
				args = append(args, "--yes") // nobody is there to be asked
			}
			seen++
			if r := runIn(t, nil, args...); r.code != exitOK {
				t.Errorf("%s: %q ends with %d: %s", path, strings.TrimSpace(m[1]), r.code, r.stderr)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d commands found", seen)
	}
}

func TestGoodFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/config/*.good.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if r := runIn(t, nil, "up", "--config", f, "--print-config"); r.code != exitOK {
			t.Errorf("%s: exit %d: %s", f, r.code, r.stderr)
		}
	}
}

func TestBadFilesSayWhatAndWhere(t *testing.T) {
	want := map[string][]string{
		"typo":    {`line 1: "listne"`, `did you mean "listen"?`},
		"twice":   {`line 2: "listen"`, "stands twice"},
		"nested":  {`line 1: "limits"`, "is not a setting"},
		"map":     {`line 1: "data"`, "must be one value"},
		"list":    {"line 1", "flag-name: value"},
		"syntax":  {"syntax.bad.yaml", "flag-name: value"},
		"number":  {"clickhouse-http-port (testdata/config/number.bad.yaml line 1)", `"many"`},
		"enum":    {"durability (testdata/config/enum.bad.yaml line 1)", `"os","fsync"`},
		"address": {"listen (testdata/config/address.bad.yaml line 1)", "host:port"},
		"config":  {`"config"`, "as a flag"},
	}
	files, err := filepath.Glob("testdata/config/*.bad.yaml")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files for %d expectations, %v", len(files), len(want), err)
	}
	for _, f := range files {
		r := runIn(t, nil, "up", "--config", f, "--print-config")
		if r.code != exitUsage || r.stdout != "" {
			t.Errorf("%s: exit %d, stdout %q", f, r.code, r.stdout)
		}
		for _, w := range want[strings.TrimSuffix(filepath.Base(f), ".bad.yaml")] {
			if !strings.Contains(r.stderr, w) {
				t.Errorf("%s: %q is not in: %s", f, w, r.stderr)
			}
		}
	}
}

func TestWrongSettingsAreRefusedBeforeAnythingStarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "untouched")
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"unknown flag", nil, []string{"up", "--listne", "x"}, `did you mean "--listen"?`},
		{"unknown command", nil, []string{"frobnicate"}, "frobnicate"},
		{"dev key beyond loopback", nil, []string{"up", "--listen", "0.0.0.0:1", "--dev-key", "k"},
			"--dev-key is for loopback only, and --listen is 0.0.0.0:1"},
		{"dev key beyond loopback by name", nil, []string{"up", "--listen", "example.com:1", "--dev-key", "k"}, "loopback only"},
		{"dev key beyond loopback on gRPC", nil, []string{"up", "--grpc-listen", "0.0.0.0:1", "--dev-key", "k"}, "--grpc-listen is 0.0.0.0:1"},
		{"dev key on any host", nil, []string{"up", "--listen", ":1", "--dev-key", "k"}, "loopback only"},
		{"dev key by environment", map[string]string{"WARPLINE_DEV_KEY": "k"}, []string{"up", "--listen", "0.0.0.0:1"},
			"WARPLINE_DEV_KEY is for loopback only"},
		{"dev key of a gateway", nil, []string{"gateway", "--nats", "nats://x", "--listen", "[::]:1", "--dev-key", "k"}, "loopback only"},
		{"NATS without users", nil, []string{"up", "--nats-listen", "0.0.0.0:4222"}, "loopback only"},
		{"no number by environment", map[string]string{"WARPLINE_CLICKHOUSE_TCP_PORT": "x"},
			[]string{"up"}, "WARPLINE_CLICKHOUSE_TCP_PORT: expected"},
		{"port too large", nil, []string{"up", "--clickhouse-tcp-port", "65536"}, "--clickhouse-tcp-port: 65536"},
		{"half a TLS pair", nil, []string{"up", "--tls-cert", "x"}, "go together"},
		{"half a client pair", nil, []string{"send", "--client-cert", "x", "y"}, "--client-cert and --client-key go together"},
		{"no client pair", nil, []string{"send", "--client-cert", "x", "--client-key", "x", "y"}, "--client-cert, --client-key: open x"},
		{"client authority without TLS", nil, []string{"up", "--tls-client-ca", "x"}, "--tls-client-ca needs --tls-cert"},
		{"too many active sessions", nil, []string{"up", "--limit-active-sessions", "70000"}, "use at most 65536"},
		{"raw rows", nil, []string{"up", "--raw-rows", "maybe"}, "--raw-rows: \"maybe\": use on or off"},
		{"an endless price", nil, []string{"cost", "--price-gb-month", "Inf"}, "--price-gb-month: +Inf: use a positive number"},
		{"no price", nil, []string{"cost", "--price-core-hour", "NaN"}, "--price-core-hour: NaN"},
		{"no share", nil, []string{"cost", "--busy", "NaN"}, "--busy: NaN: use a share above 0, at most 1"},
		{"days without end", nil, []string{"up", "--rollup-days", "60000"}, "--rollup-days: 60000: use at most 18250 days"},
		{"negative age", nil, []string{"up", "--limit-past=-1h"}, "--limit-past"},
		{"replicas without a cluster", nil, []string{"up", "--replicas", "3"}, "--nats"},
		{"size", nil, []string{"up", "--ingest-max", "lots"}, "512MiB"},
		{"negative limit", nil, []string{"up", "--limit-ratio=-1"}, "--limit-ratio"},
		{"worker without NATS", nil, []string{"worker"}, "--nats is missing"},
		{"sink without ClickHouse", nil, []string{"sink", "--nats", "nats://x"}, "--clickhouse is missing"},
		{"tenant name", nil, []string{"key", "create", "No Good"}, "1 to 63"},
		{"URL", nil, []string{"send", "--url", "localhost:8080", "x"}, "http://host:port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := c.args
			if args[0] == "up" {
				args = append(args, "--data", dir)
			}
			r := runIn(t, c.env, args...)
			if r.code != exitUsage || !strings.Contains(r.stderr, c.want) || r.stdout != "" {
				t.Errorf("exit %d, want %q in: %s%s", r.code, c.want, r.stderr, r.stdout)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("the data folder was made before the settings were checked")
			}
		})
	}
}

// What --print-config prints can be given back by --config and means the same; secrets never show.
func TestPrintConfigReadsBackAndKeepsSecrets(t *testing.T) {
	env := map[string]string{"WARPLINE_CLICKHOUSE_PASSWORD": "hunter2hunter2"}
	first := runIn(t, env, "up", "--dev-key", "topsecret", "--listen", "127.0.0.1:77", "--ingest-max",
		"2GiB", "--chunk-age", "90s", "--print-config")
	if first.code != exitOK || strings.Contains(first.stdout+first.stderr, "topsecret") ||
		strings.Contains(first.stdout+first.stderr, "hunter2") {
		t.Fatalf("exit %d, or a secret shows:\n%s%s", first.code, first.stdout, first.stderr)
	}
	if !strings.Contains(first.stdout, "# dev-key: ***  # --dev-key, not shown") {
		t.Errorf("the dev key is not mentioned:\n%s", first.stdout)
	}
	file := filepath.Join(t.TempDir(), "printed.yaml")
	if err := os.WriteFile(file, []byte(first.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	second := runIn(t, nil, "up", "--config", file, "--print-config")
	if a, b := values(first.stdout), values(second.stdout); a != b {
		t.Errorf("printed\n%s\nread back\n%s\n%s", a, b, second.stderr)
	}
	if !strings.Contains(second.stdout, "ingest-max: 2GiB") {
		t.Errorf("the value did not survive:\n%s", second.stdout)
	}
}

// values are the settings without where they came from.
func values(printed string) string {
	var b strings.Builder
	for line := range strings.Lines(printed) {
		if v, _, _ := strings.Cut(line, "  #"); !strings.HasPrefix(v, "#") {
			io.WriteString(&b, strings.TrimSpace(v)+"\n")
		}
	}
	return b.String()
}

func TestHelpNamesExitCodesAndEveryCommand(t *testing.T) {
	r := runIn(t, nil, "--help")
	if r.code != exitOK {
		t.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	for _, w := range []string{"demo", "up", "gateway", "worker", "sink", "key create", "audit", "send", "report", "bench", "Exit codes:",
		"130"} {
		if !strings.Contains(r.stdout, w) {
			t.Errorf("%q is not in --help", w)
		}
	}
	for _, hidden := range []string{"nats server alone", "engine alone"} {
		if strings.Contains(strings.ToLower(r.stdout), hidden) {
			t.Errorf("--help shows a hidden command: %q", hidden)
		}
	}
	for _, command := range []string{"up", "demo", "gateway", "worker", "sink", "nats", "engine", "send", "report", "bench"} {
		if r := runIn(t, nil, command, "--help"); r.code != exitOK || !strings.Contains(r.stdout, "Usage: warpline "+command) {
			t.Errorf("%s --help: exit %d: %s", command, r.code, r.stdout)
		}
	}
	if r := runIn(t, nil, "version"); r.code != exitOK || !strings.Contains(r.stdout, "clickhouse") || r.stderr != "" {
		t.Errorf("version: %+v", r)
	}
}

// The report that needs no name shows its flags without one.
func TestReportHelp(t *testing.T) {
	r := runIn(t, nil, "report", "--help")
	for _, w := range []string{"--session", "--tenant", "--top", "--json", "--clickhouse", "--data", "warpline report memory"} {
		if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), w) {
			t.Errorf("%q is not in\n%s", w, r.stdout)
		}
	}
	if strings.Contains(r.stdout, "--rank") {
		t.Error("it shows flags of report memory")
	}
}

// --help and --print-config show the limits in force, and a key made without any leaves them to the service.
func TestLimitsInForce(t *testing.T) {
	var up struct {
		limitFlags
	}
	var key struct {
		keyLimitFlags
	}
	for _, into := range []any{&up, &key} {
		k, err := kong.New(into, helpTexts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Parse(nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := up.limits(); got != tenant.DefaultLimits() {
		t.Errorf("the flags say %+v, the service %+v", got, tenant.DefaultLimits())
	}
	if got := limitFlags(key.keyLimitFlags).limits(); got != (tenant.Limits{}) {
		t.Errorf("a key without limits has %+v", got)
	}
	r := runIn(t, nil, "gateway", "--nats", "nats://x", "--print-config")
	for _, line := range []string{"limit-events-per-second: 5000000  # default", "limit-body: 256MiB  # default",
		"retention-days: 7  # default"} {
		if !strings.Contains(r.stdout, line+"\n") {
			t.Errorf("%q is not in\n%s", line, r.stdout)
		}
	}
	for _, command := range [][]string{{"up"}, {"gateway"}, {"key", "create"}} {
		r := runIn(t, nil, append(command, "--help")...)
		if strings.Contains(r.stdout, "FLOAT") || strings.Contains(r.stdout, "UINT") {
			t.Errorf("%v --help shows Go's types:\n%s", command, r.stdout)
		}
	}
}

func TestNarrowTerminals(t *testing.T) {
	for columns, want := range map[string]int{"20": 40, "40": 40, "73": 73, "wide": 100, "0": 100} {
		p := &program{Env: func(k string) (string, bool) { return columns, k == "COLUMNS" }}
		if got, _ := p.look(io.Discard); got != want {
			t.Errorf("COLUMNS=%s: %d, want %d", columns, got, want)
		}
	}
}

func TestFlagsMayFollowArguments(t *testing.T) {
	r := runIn(t, nil, "send", "/no/such/folder", "--url", "http://127.0.0.1:1", "--print-config")
	if r.code != exitOK || !strings.Contains(r.stdout, "url: http://127.0.0.1:1") {
		t.Errorf("%+v", r)
	}
}

// A secret comes from a file too, and what is wrong with the file is said before anything starts.
func TestSecretsFromFiles(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"both":       {[]string{"--dev-key", "a", "--dev-key-file", secretFile(t, "b")}, "--dev-key and --dev-key-file are both given"},
		"no file":    {[]string{"--dev-key-file", filepath.Join(t.TempDir(), "none")}, "--dev-key-file: open"},
		"an empty":   {[]string{"--dev-key-file", secretFile(t, "\n")}, "is empty"},
		"two lines":  {[]string{"--dev-key-file", secretFile(t, "a\nb\n")}, "more than one line"},
		"a long one": {[]string{"--clickhouse-password-file", secretFile(t, strings.Repeat("x", 100_000))}, "must hold the secret alone"},
		"public":     {[]string{"--listen", "[::]:1", "--dev-key-file", secretFile(t, "secret-key\n")}, "loopback only"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"up", "--data", t.TempDir()}, c.args...)
			if got := runIn(t, nil, args...); got.code != exitUsage || !strings.Contains(got.stderr, c.says) || strings.Contains(got.stderr,
				"secret-key") {
				t.Errorf("%+v, want %q", got, c.says)
			}
		})
	}
	file := secretFile(t, "hunter2\r\n")
	got := runIn(t, map[string]string{"WARPLINE_CLICKHOUSE_PASSWORD_FILE": file}, "up", "--data", t.TempDir(), "--print-config")
	if got.code != exitOK || !strings.Contains(got.stdout, "clickhouse-password-file: "+file) || strings.Contains(got.stdout, "hunter2") {
		t.Errorf("%+v", got)
	}
}
