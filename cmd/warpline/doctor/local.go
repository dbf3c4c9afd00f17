package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/warpline/warpline/proto/tenant"
)

// leastFree is what must be free beneath the data folder.
const leastFree = 5 << 30

func freeBytes(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}

func (p *Patient) disk(context.Context) (found, fix string, err error) {
	if p.Dir == "" {
		return "no data folder on this machine", "", nil
	}
	free, err := p.FreeBytes(p.Dir)
	if err != nil {
		return "", "", err
	}
	if free < leastFree {
		fix = fmt.Sprintf("make room: with less than %s free, uploads are soon refused", humanize.IBytes(leastFree))
	}
	return humanize.IBytes(free) + " free", fix, nil
}

// publicMetrics asks for the metrics where others can ask too.
func (p *Patient) publicMetrics(ctx context.Context) (found, fix string, err error) {
	u, err := url.Parse(p.Gateway)
	if p.Gateway == "" || err != nil {
		return "the gateway's address is not known", "", err
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return "the gateway is on loopback", "", nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Gateway+"/metrics", nil)
	if err != nil {
		return "", "", err
	}
	// Nothing secret is sent, so whose certificate it is does not matter.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return "", "", err
	}
	res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return "everybody who reaches the gateway reads /metrics, which names tenants",
			"let the proxy before it pass on /api/ and /clickhouse/ alone; use --metrics-listen", nil
	}
	return "the gateway does not show them", "", nil
}

// soon is how long before its end a key is told.
const soon = 7 * 24 * time.Hour

func (p *Patient) keysExpiring(context.Context) (found, fix string, err error) {
	var ends []string
	valid := 0
	for i := range p.Keys {
		k := &p.Keys[i]
		if ok, _ := k.Valid(p.Now()); !ok {
			continue
		}
		valid++
		// A key that was made for less is meant to end, and so is one that has a successor, as "key rotate" makes it.
		successor := slices.ContainsFunc(p.Keys, func(o tenant.Key) bool {
			ok, _ := o.Valid(p.Now().Add(soon))
			return ok && o.Tenant == k.Tenant && o.Scope == k.Scope && o.Note == k.Note && o.Created.After(k.Created)
		})
		if !k.Expires.IsZero() && k.Expires.Sub(p.Now()) < soon && k.Expires.Sub(k.Created) > soon && !successor {
			ends = append(ends, k.ID+" of "+cmp.Or(k.Tenant, "the operator"))
		}
	}
	if len(ends) == 0 {
		return fmt.Sprintf("%d valid keys, none ends within 7 days", valid), "", nil
	}
	return "end within 7 days: " + strings.Join(ends, ", "),
		"\"warpline key rotate ID\" makes the next, or \"warpline key set ID --expires 720h\" lets it work longer", nil
}
