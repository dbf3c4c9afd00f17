package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/proto/tenant"
)

// TenantFile is a file that declares tenants; its zero value declares none.
type TenantFile struct {
	Path string
	// Limits makes limits of what the file says of a tenant: values by the names of the flags.
	Limits func(map[string]string) (tenant.Limits, error)
}

const (
	// lookEvery is how often the file is read. Reading it also finds a link that now points elsewhere, as Kubernetes does it.
	lookEvery     = 2 * time.Second
	maxTenantFile = 16 << 20
)

// declared is what the file says of a tenant.
type declared struct {
	note     string
	disabled bool
	limits   tenant.Limits
}

// Read returns the tenants of the file by name. An error names the tenant and the line.
func (f TenantFile) Read() (map[string]declared, []byte, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxTenantFile+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > maxTenantFile {
		return nil, nil, fmt.Errorf("%s is longer than %d MiB", f.Path, maxTenantFile>>20)
	}
	all, err := f.parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return all, text, nil
}

func (f TenantFile) parse(text []byte) (map[string]declared, error) {
	var doc struct {
		Tenants map[string]map[string]yaml.Node `yaml:"tenants"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the list of tenants, after \"---\": put all of them into one list")
	}
	if doc.Tenants == nil {
		return nil, errors.New("there is no list \"tenants:\"; to declare none, write \"tenants: {}\"")
	}
	all := make(map[string]declared, len(doc.Tenants))
	for name, fields := range doc.Tenants {
		if err := tenant.CheckName(name); err != nil {
			return nil, err
		}
		var d declared
		values := map[string]string{}
		for key, value := range fields {
			var err error
			switch {
			case value.Kind != yaml.ScalarNode:
				err = errors.New("it has one value")
			case key == "note":
				d.note = value.Value
				err = tenant.CheckNote(d.note)
			case key == "disabled":
				err = value.Decode(&d.disabled)
			default:
				values[key] = value.Value
			}
			if err != nil {
				return nil, fmt.Errorf("tenant %s, line %d, %s: %w", name, value.Line, key, err)
			}
		}
		var err error
		if d.limits, err = f.Limits(values); err != nil {
			return nil, fmt.Errorf("tenant %s: %w", name, err)
		}
		all[name] = d
	}
	return all, nil
}

// tenantKeeper keeps the records of tenants as the file has them.
type tenantKeeper struct {
	file   TenantFile
	desk   *admin.Desk
	log    *slog.Logger
	good   prometheus.Gauge
	stored [sha256.Size]byte // of the file that was last carried out
	bad    string            // what is wrong with the file, as it was last said
}

// keepTenants carries out the file, now and whenever it changes, until ctx ends. An error is that of the first time: later a bad file
// leaves all as it is, and is told.
func keepTenants(ctx context.Context, f TenantFile, desk *admin.Desk, log *slog.Logger, reg prometheus.Registerer) (
	wait func(), err error) {
	k := &tenantKeeper{file: f, desk: desk, log: log, good: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "warpline",
		Name: "tenants_file_good", Help: "1 while the file of --tenants is carried out, or there is none; 0 while it " +
			"is bad and what it said before holds."})}
	reg.MustRegister(k.good)
	if f.Path == "" {
		k.good.Set(1)
		return func() {}, nil
	}
	if err := k.look(ctx); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := k.look(ctx); err != nil && ctx.Err() == nil && err.Error() != k.bad {
				k.bad = err.Error()
				log.Error("the file of --tenants is bad; what it said before holds", "err", err)
			}
		}
	}()
	return func() { <-done }, nil
}

// look reads the file and carries it out where it is not what was carried out last.
func (k *tenantKeeper) look(ctx context.Context) error {
	all, text, err := k.file.Read()
	if err != nil {
		k.good.Set(0)
		return err
	}
	sum := sha256.Sum256(text)
	if sum == k.stored {
		k.good.Set(1)
		k.bad = ""
		return nil
	}
	changed, err := k.carryOut(ctx, all)
	if err != nil {
		k.good.Set(0)
		return fmt.Errorf("carry out %s: %w", k.file.Path, err)
	}
	k.stored, k.bad = sum, ""
	k.good.Set(1)
	k.log.Info("the file of --tenants is carried out", "tenants", len(all), "changed", changed)
	return nil
}

// carryOut stores what differs. A tenant that is in the file no more keeps its limits, and can be changed with commands again.
func (k *tenantKeeper) carryOut(ctx context.Context, all map[string]declared) (changed int, err error) {
	records, err := k.desk.Tenants.List(ctx)
	if err != nil {
		return 0, err
	}
	have := make(map[string]tenant.Record, len(records))
	for _, r := range records {
		have[r.Name] = r
		if _, still := all[r.Name]; r.Declared && !still {
			if err := k.desk.Undeclare(ctx, r.Name); err != nil {
				return changed, err
			}
			changed++
			k.log.Warn("a tenant is in the file of --tenants no more: it keeps its limits, and \"warpline tenant\" can change them", "tenant",
				r.Name)
		}
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		d := all[name]
		r, there := have[name]
		if there && r.Declared && r.Note == d.note && r.Limits == d.limits && !r.Disabled.IsZero() == d.disabled {
			continue
		}
		if _, err := k.desk.Declare(ctx, name, d.note, d.disabled, d.limits); err != nil {
			return changed, err
		}
		changed++
	}
	return changed, nil
}
