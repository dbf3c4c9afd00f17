package service

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// Size is a number of bytes that people write as 512MiB, 2GB or 1048576.
type Size int64

// UnmarshalText reads what String writes, and what people write.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > 1<<62 {
		return fmt.Errorf("%q is not a size: write 512MiB, 2GB or a number of bytes", text)
	}
	*s = Size(n)
	return nil
}

// String is the size in the largest binary unit that loses nothing.
func (s Size) String() string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	n, u := int64(s), 0
	for n != 0 && n%1024 == 0 && u < len(units)-1 {
		n, u = n/1024, u+1
	}
	if u == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprint(n, units[u])
}
