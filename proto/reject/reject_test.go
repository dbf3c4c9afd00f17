package reject_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
)

func TestReasonsListsAll(t *testing.T) {
	text, err := os.ReadFile("reject.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`\w+ += "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		want = append(want, m[1])
	}
	have := reject.Reasons()
	if !slices.Equal(have, want) {
		t.Errorf("have %v\nwant %v", have, want)
	}
	for _, reason := range gpuflight.Reasons() {
		if slices.Contains(have, reason) {
			t.Errorf("%s stands in two packages", reason)
		}
	}
}
