package gpuflight_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

func TestReasonsListsAll(t *testing.T) {
	text, err := os.ReadFile("reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`Reason\w+ += "(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		want = append(want, m[1])
	}
	if have := gpuflight.Reasons(); !slices.Equal(have, want) {
		t.Errorf("have %v\nwant %v", have, want)
	}
}
