package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/warpline/warpline/cmd/warpline/replay"
	"github.com/warpline/warpline/query/report"
)

// verdictFlags say whether "send" waits to hear what became of what it sent.
type verdictFlags struct {
	Wait   time.Duration `default:"1m" help:"${verdict_wait}"`
	NoWait bool          `name:"no-wait" help:"Do not wait for the workers: the counts and the exit code are those of the door alone."`
	JSON   bool          `name:"json" help:"Print the result as one JSON document."`
}

// Words of sendResult.Verdict beside the states of replay.
const verdictNotAsked = "not_asked"

// reasonBefore counts what the door refused when it was first sent, in uploads that it had taken before.
const reasonBefore = "refused_before"

// sendResult is what became of everything that was sent: the document of --json, whose names stay.
type sendResult struct {
	Sessions       int64 `json:"sessions"` // of GPU Flight
	Windows        int64 `json:"windows"`
	Unacknowledged int64 `json:"windows_unacknowledged"` // their files should be kept
	Files          int64 `json:"files"`                  // of memory telemetry
	Bytes          int64 `json:"bytes"`
	// Verdict is done, pending (the time was over), unknown (the service does not know any more), untold (it is older than this program),
	// or not_asked. While it is neither done nor pending, the counts below are those of the door.
	Verdict    string        `json:"verdict"`
	Events     int64         `json:"events"`
	Stored     *int64        `json:"stored"` // null where nobody knows
	Rejected   int64         `json:"rejected"`
	Duplicates *int64        `json:"duplicates"` // null where nobody knows
	Reasons    []reasonCount `json:"reasons"`    // of Rejected, the most first
	Refused    []refusal     `json:"refused"`    // whole files and windows of which nothing was taken; in no count above
	ExitCode   int           `json:"exit_code"`
	Error      string        `json:"error,omitempty"`

	door doorCounts
}

// reasonCount is how many events were refused for a reason.
type reasonCount struct {
	Reason string `json:"reason"`
	Events int64  `json:"events"`
}

// refusal is a file or a window that was refused whole.
type refusal struct {
	Path   string `json:"path"`
	Status int    `json:"status"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// newRefusal reads the answer that refused path.
func newRefusal(path string, status *replay.StatusError) refusal {
	var problem struct {
		Code string `json:"error"`
	}
	_ = json.Unmarshal([]byte(status.Body), &problem)
	return refusal{Path: path, Status: status.Status, Reason: cmp.Or(problem.Code, fmt.Sprintf("http_%d", status.Status)),
		Detail: status.Error()}
}

// byOther reports whether it says nothing of the content: it is of the key, a quota, or a conflict with what is there.
func (r *refusal) byOther() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
		http.StatusTooManyRequests:
		return true
	}
	return r.Reason == "idempotency_conflict"
}

// doorCounts are what the answers to the uploads said.
type doorCounts struct {
	accepted, rejected int64
	reasons            map[string]int64
}

// add counts an answer: listed are the reasons that it names, one for each of the first few refusals.
func (d *doorCounts) add(accepted, rejected int64, listed []string) {
	d.accepted += accepted
	d.rejected += rejected
	if rejected == 0 {
		return
	}
	if d.reasons == nil {
		d.reasons = map[string]int64{}
	}
	for i, reason := range listed {
		if rejected == 0 {
			return
		}
		n := int64(1)
		if i == len(listed)-1 && !slices.ContainsFunc(listed, func(r string) bool { return r != reason }) {
			n = rejected // there is no other
		}
		d.reasons[reason] += n
		rejected -= n
	}
	if rejected > 0 {
		d.reasons["other"] += rejected
	}
}

// judge waits for the verdict and enters it. The error is why none could be had.
func (c *sendCmd) judge(ctx context.Context, p *program, s *replay.Sender, r *sendResult) error {
	if c.NoWait || s.Question == nil {
		r.enterDoor(verdictNotAsked)
		return nil
	}
	bar := newWaitBar(p)
	defer bar.Finish()
	began, said := time.Now(), time.Now()
	v, err := s.Verdict(ctx, c.Wait, func(v replay.Verdict) {
		bar.ChangeMax64(max(v.Parts, 1))
		bar.Set64(v.PartsFolded)
		if now := time.Now(); v.State == replay.Pending && now.Sub(said) >= 10*time.Second && !isTerminal(p.Stderr) {
			said = now
			fmt.Fprintf(p.Stderr, "waiting for the workers since %s: %d of %s folded\n", now.Sub(began).Round(time.Second), v.PartsFolded,
				plural(v.Parts, "part"))
		}
	})
	switch v.State {
	case replay.Unknown, replay.Untold:
		r.enterDoor(v.State)
	default:
		r.enter(v)
	}
	return err
}

// enterDoor takes what the answers said for what there is to say.
func (r *sendResult) enterDoor(state string) {
	r.Verdict = state
	r.Events, r.Rejected = r.door.accepted+r.door.rejected, r.door.rejected
	for reason, n := range r.door.reasons {
		r.Reasons = append(r.Reasons, reasonCount{reason, n})
	}
	r.sortReasons()
}

// enter takes what the workers and the door know together. An upload that had been taken before is a duplicate, but for what was refused of
// it then.
func (r *sendResult) enter(v replay.Verdict) {
	duplicates := v.Duplicates + v.Repeated - v.RepeatedRejected
	r.Verdict, r.Events, r.Stored, r.Rejected, r.Duplicates = v.State, v.Events+v.Repeated, &v.Stored,
		v.Rejected+v.RepeatedRejected, &duplicates
	for _, one := range v.Reasons {
		r.Reasons = append(r.Reasons, reasonCount{one.Reason, one.Events})
	}
	if v.RepeatedRejected > 0 {
		r.Reasons = append(r.Reasons, reasonCount{reasonBefore, v.RepeatedRejected})
	}
	if v.State == replay.Pending && r.door.rejected > r.Rejected { // the door's refusals wait for the workers, too
		r.Reasons = []reasonCount{}
		state, events := r.Verdict, r.Events
		r.enterDoor(state)
		r.Events = max(events, r.Rejected)
		return
	}
	r.sortReasons()
}

func (r *sendResult) sortReasons() {
	slices.SortFunc(r.Reasons, func(a, b reasonCount) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.Reason, b.Reason))
	})
}

// say tells people the counts, a reason a line.
func (r *sendResult) say(p *program, waited time.Duration) {
	switch r.Verdict {
	case replay.Done, replay.Pending:
		so := ""
		if r.Verdict == replay.Pending {
			so = " so far"
		}
		fmt.Fprintf(p.Stderr, "%s%s: %d stored, %d refused, %d sent before\n", plural(r.Events, "event"),
			so, *r.Stored, r.Rejected, *r.Duplicates)
	default:
		fmt.Fprintf(p.Stderr, "%s taken; refused at the door: %d\n", plural(r.door.accepted, "event"), r.Rejected)
	}
	if len(r.Reasons) > 0 {
		width := len(fmt.Sprint(r.Reasons[0].Events))
		for _, one := range r.Reasons {
			fmt.Fprintf(p.Stderr, "  %*d  %s\n", width, one.Events, report.Printable(one.Reason))
		}
	}
	switch r.Verdict {
	case replay.Pending:
		fmt.Fprintf(p.Stderr, "the workers have not said within %s what became of all of it; it is accepted, and what they refuse will be in "+
			"\"warpline reject list\" (--wait waits longer)\n", waited)
	case replay.Unknown:
		fmt.Fprintln(p.Stderr, "the service does not know any more how much of it the workers refused; it was accepted: \"warpline reject "+
			"list\" has what was refused")
	case replay.Untold:
		fmt.Fprintln(p.Stderr, "this gateway is older than this program and does not tell what the workers refuse: see \"warpline reject list\"")
	}
}

// end is the error that goes with the result, nil when everything was taken and stored, now or before.
func (r *sendResult) end() error {
	var counts []string
	for _, one := range r.Reasons {
		counts = append(counts, fmt.Sprintf("%d %s", one.Events, report.Printable(one.Reason)))
	}
	var errs []error
	code := exitOK
	if r.Verdict == replay.Pending || r.Verdict == replay.Unknown {
		code = exitUnreachable
		errs = append(errs, errors.New("it is not known whether all that was accepted was stored"))
	}
	if r.Rejected > 0 {
		code = exitFailed
		errs = []error{fmt.Errorf("%d of %s refused: %s; \"warpline reject list\" has them", r.Rejected,
			plural(r.Events, "event"), strings.Join(counts, ", "))}
	}
	if n := len(r.Refused); n > 0 {
		one := r.Refused[0]
		if i := slices.IndexFunc(r.Refused, func(f refusal) bool { return f.byOther() }); i >= 0 {
			code, one = exitRefused, r.Refused[i]
		} else {
			code = exitFailed
		}
		errs = append(errs, fmt.Errorf("%s refused whole, the first: %s: %s (%s)", plural(int64(n), "file"), one.Path, one.Detail, one.Reason))
	}
	return withCode(errors.Join(errs...), code)
}

// finish prints the document where it is asked for and returns err, or the result's own.
func (c *sendCmd) finish(p *program, r *sendResult, err error) error {
	if err == nil {
		err = r.end()
	}
	if !c.JSON {
		return err
	}
	if err != nil {
		r.ExitCode, r.Error = codeOf(err), err.Error()
		if r.ExitCode == exitFailed && errors.Is(err, context.Canceled) {
			r.ExitCode = exitStopped
		}
	}
	e := newEncoder(p.Stdout)
	e.SetIndent("", "  ")
	return errors.Join(err, e.Encode(r))
}

// newWaitBar counts parts on a terminal and is silent elsewhere.
func newWaitBar(p *program) *progressbar.ProgressBar {
	return progressbar.NewOptions64(1, progressbar.OptionSetWriter(p.Stderr), progressbar.OptionSetDescription("waiting for the workers"),
		progressbar.OptionShowCount(),
		progressbar.OptionSetVisibility(isTerminal(p.Stderr)), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond))
}
