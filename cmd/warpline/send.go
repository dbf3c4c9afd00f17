package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/warpline/warpline/cmd/warpline/replay"
	"github.com/warpline/warpline/cmd/warpline/service"
)

// sendCmd sends session folders, files and memory telemetry to a gateway.
type sendCmd struct {
	Path     []string      `arg:"" help:"${send_path}"`
	URL      string        `placeholder:"URL" help:"${send_url}"`
	Key      string        `secret:"" placeholder:"KEY" help:"Key to send with; by default the one in the key file of --data."`
	KeyFile  string        `placeholder:"FILE" help:"File that holds the key alone."`
	Cert     string        `name:"client-cert" placeholder:"FILE" help:"Certificate to show to a gateway that asks for one, PEM."`
	CertKey  string        `name:"client-key" placeholder:"FILE" help:"Its private key, PEM."`
	Data     string        `default:"./warpline-data" placeholder:"DIR" help:"${send_data}"`
	Host     string        `placeholder:"NAME" help:"Host name to send; by default this machine's."`
	Attempts int           `default:"0" placeholder:"N" help:"${send_attempts}"`
	Retry    time.Duration `default:"5s" help:"Pause before a window is sent again."`
	verdictFlags
	telemetryFlags
	traceFlags

	shown   []tls.Certificate // to a gateway that asks
	guessed bool              // nobody named URL, and nothing runs on Data
}

func (c *sendCmd) check(p *program) error {
	if c.URL == "" {
		gateway, runs := service.GatewayOf(c.Data)
		c.URL, c.guessed = gateway, !runs
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s: %q: write http://host:port", p.Settings.name("url"), c.URL)
	}
	if (c.Cert == "") != (c.CertKey == "") {
		return fmt.Errorf("%s and %s go together: give both or none", p.Settings.name("client-cert"), p.Settings.name("client-key"))
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.CertKey)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", p.Settings.name("client-cert"), p.Settings.name("client-key"), err)
		}
		c.shown = []tls.Certificate{pair}
	}
	if c.Attempts < 0 || c.Retry <= 0 {
		return fmt.Errorf("%s cannot be negative and %s must be above zero", p.Settings.name("attempts"), p.Settings.name("retry"))
	}
	if c.Wait < 0 {
		return fmt.Errorf("%s: %v: cannot be negative", p.Settings.name("wait"), c.Wait)
	}
	return nil
}

// Run sends everything, waits for the workers, and says what became of it.
func (c *sendCmd) Run(ctx context.Context, p *program) error {
	var sessions []replay.Session
	var files []telemetryFile
	for _, name := range c.Path {
		found, exports, err := findAll(name, c.options())
		if err != nil {
			return usage(err)
		}
		sessions, files = append(sessions, found...), append(files, exports...)
	}
	if err := c.anybody(ctx); err != nil {
		return err
	}
	if c.Key == "" {
		if b, err := os.ReadFile(filepath.Join(c.Data, service.KeyFile)); err == nil {
			c.Key = strings.TrimSpace(string(b))
		}
	}
	if c.Host == "" {
		c.Host, _ = os.Hostname()
	}
	var total int64
	for i := range sessions {
		total += sessions[i].Bytes()
	}
	for i := range files {
		total += files[i].size
	}
	bar := newBar(p, total, "sending")
	var once sync.Once
	wait := func(name string, err error) {
		once.Do(func() { // the first one explains, the rest only wait
			fmt.Fprintf(p.Stderr, "\n%s: %v%s\ntrying again every %s; Ctrl-C to give up\n", name, err, c.advice(err), c.Retry)
		})
	}
	s := &replay.Sender{
		URL: strings.TrimSuffix(c.URL, "/"), Key: c.Key, Host: c.Host, Retry: c.Retry, Attempts: c.Attempts,
		HTTP:    c.client(),
		GiveUp:  hopeless,
		Sent:    func(n int64) { bar.Add64(n) },
		Waiting: func(w replay.Window, err error) { wait(w.Path, err) },
	}
	if !c.NoWait {
		s.Question = replay.NewQuestion()
	}
	began := time.Now()
	r, err := s.Send(ctx, sessions)
	out := &sendResult{Sessions: int64(len(sessions)), Windows: r.Windows, Unacknowledged: r.Windows - r.Acknowledged, Bytes: r.Bytes,
		Reasons: []reasonCount{}, Refused: []refusal{}}
	out.door.add(r.Accepted, r.Rejected, r.Reasons)
	for _, skipped := range r.Skipped {
		out.Refused = append(out.Refused, newRefusal(skipped.Path, skipped.Status))
	}
	if err == nil {
		err = c.sendTelemetry(ctx, p, s, files, out, wait)
	}
	bar.Finish()
	if err != nil {
		out.enterDoor(verdictNotAsked)
	}
	if ctx.Err() != nil && err != nil {
		fmt.Fprintf(p.Stderr, "%s and %s were taken; sending the same again is harmless\n", plural(out.Windows, "window"),
			plural(out.Files, "file"))
		return c.finish(p, out, ctx.Err())
	}
	if err != nil {
		err = fmt.Errorf("%w%s", err, c.advice(err))
		var status *replay.StatusError
		if errors.As(err, &status) {
			return c.finish(p, out, refused(err))
		}
		return c.finish(p, out, unreachable(err))
	}
	for _, one := range sessions {
		for _, name := range one.Unsent {
			why := "is not a log of a channel"
			if one.Running {
				why = "is still being written: send the folder again when its client has ended"
			}
			fmt.Fprintf(p.Stderr, "not sent: %s of session %s %s\n", name, one.ID, why)
		}
	}
	if len(sessions) > 0 {
		fmt.Fprintf(p.Stderr, "%s of %s taken, %s in %s\n", plural(r.Windows, "window"), plural(int64(len(sessions)), "session"),
			humanize.IBytes(uint64(r.Bytes)), time.Since(began).Round(time.Millisecond))
	}
	if out.Unacknowledged > 0 {
		fmt.Fprintf(p.Stderr, "%d of them were taken without window_acknowledged: keep the files; \"warpline reject list\" says what was "+
			"refused\n", out.Unacknowledged)
	}
	if err := c.judge(ctx, p, s, out); ctx.Err() != nil {
		fmt.Fprintln(p.Stderr, "everything was taken; what the workers make of it was not waited for")
		return c.finish(p, out, ctx.Err())
	} else if err != nil {
		fmt.Fprintf(p.Stderr, "the gateway could not be asked what the workers refused: %v\n", err)
	}
	out.say(p, c.Wait)
	return c.finish(p, out, nil)
}

// anybody is an error when the address is a guess and nobody is there. Who names an address waits for it, as the agent does; a guess that
// fails is a wrong --data or a service that was not started, and waiting would not tell.
func (c *sendCmd) anybody(ctx context.Context) error {
	if !c.guessed || service.Held(c.Data) {
		return nil
	}
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", strings.TrimPrefix(c.URL, "http://"))
	if errors.Is(err, syscall.ECONNREFUSED) {
		return unreachable(fmt.Errorf("no warpline runs on %s, and nothing listens at %s: start \"warpline up\", or name its folder with "+
			"--data or its address with --url and --key",
			c.Data, c.URL))
	}
	if err == nil {
		conn.Close()
	}
	return nil
}

// client is how it speaks with the gateway.
func (c *sendCmd) client() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{Certificates: c.shown, MinVersion: tls.VersionTLS12}}}
}

// hopeless are answers that trying again cannot mend: a wrong key and a wrong address.
func hopeless(err error) bool {
	var status *replay.StatusError
	return distrust(err) || asked(err) || errors.As(err, &status) && (plainToTLS(status) || status.Status == http.StatusUnauthorized ||
		status.Status == http.StatusForbidden || status.Status == http.StatusNotFound)
}

// distrust reports whether a TLS certificate was not accepted.
func distrust(err error) bool {
	var tlsErr *tls.CertificateVerificationError
	return errors.As(err, &tlsErr)
}

// asked reports whether the gateway asks for a certificate, or does not accept the one that it was shown.
func asked(err error) bool {
	text := err.Error() // the alerts have no type of their own
	return strings.Contains(text, "remote error: tls: certificate required") || strings.Contains(text, "remote error: tls: bad certificate") ||
		strings.Contains(text, "remote error: tls: unknown certificate authority")
}

// plainToTLS reports whether the answer is that of a TLS server to somebody who did not speak TLS.
func plainToTLS(s *replay.StatusError) bool {
	return s.Status == http.StatusBadRequest && strings.Contains(s.Body, "HTTP request to an HTTPS server")
}

// plural is "1 window" or "2 windows".
func plural(n int64, one string) string {
	if n != 1 {
		one += "s"
	}
	return fmt.Sprintf("%d %s", n, one)
}

// advice says what to do about an answer.
func (c *sendCmd) advice(err error) string {
	var status *replay.StatusError
	switch {
	case distrust(err):
		return "\nthe certificate of " + c.URL + " is not trusted here: name the authority that signed it, or the certificate itself, as " +
			"SSL_CERT_FILE=ca.pem"
	case asked(err):
		return "\nthe gateway asks for a certificate that one of its --tls-client-ca signed: name it with --client-cert and --client-key"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "\nthe gateway speaks no TLS: write http:// in --url"
	case errors.As(err, &status) && plainToTLS(status):
		return "\nthe gateway speaks TLS: write https:// in --url"
	case strings.HasPrefix(c.URL, "http:") && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
		return "\nit hung up: it is being restarted, or it speaks TLS (then write https:// in --url)"
	case !errors.As(err, &status):
		return "\nis a gateway running at " + c.URL + "? name another with --url"
	case status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden:
		if c.Key == "" {
			return "\nname a key with --key, or the data folder that holds one with --data"
		}
		return "\nthe key is not accepted: make one with \"warpline key create\""
	case status.Status == http.StatusNotFound:
		return "\nnothing takes events at " + c.URL + ": is a path prefix missing?"
	case status.Status == http.StatusConflict:
		return "\n\"warpline window accept\" lets the new bytes in"
	}
	return ""
}

// newBar is a progress bar on a terminal and silent elsewhere.
func newBar(p *program, total int64, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, progressbar.OptionSetWriter(p.Stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetVisibility(isTerminal(p.Stderr)), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond))
}
