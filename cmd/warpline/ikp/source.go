package ikp

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is what is drawn together: a summary, or the blocks of one folder.
type source struct {
	name    string // of the folder for its drawings, where there are several sources
	summary *distribution
	blocks  []*distribution // by number
}

var blockFile = regexp.MustCompile(`^block_[0-9]+\.json(\.gz)?$`)

func isSummary(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, ".gz"), "_summary.json")
}

// readSources reads what paths name, files and folders.
func readSources(ctx context.Context, paths []string) ([]*source, error) {
	var sources []*source
	loose := map[string]*source{} // of block files that are named one by one, by their folder
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, unusable(fmt.Errorf("%w: name a _summary.json, a block_N.json or a folder of them", err))
		}
		if info.IsDir() {
			found, err := readFolder(ctx, path)
			if err != nil {
				return nil, err
			}
			sources = append(sources, found...)
			continue
		}
		d, err := readDistribution(ctx, path)
		if err != nil {
			return nil, err
		}
		if d.Block == nil {
			sources = append(sources, &source{name: stem(path), summary: d})
			continue
		}
		dir := filepath.Dir(path)
		if loose[dir] == nil {
			loose[dir] = &source{name: folderName(dir)}
			sources = append(sources, loose[dir])
		}
		loose[dir].blocks = append(loose[dir].blocks, d)
	}
	names := map[string]bool{}
	for _, s := range sources {
		if err := s.order(); err != nil {
			return nil, err
		}
		for n, first := 2, s.name; names[s.name]; n++ {
			s.name = first + "-" + strconv.Itoa(n)
		}
		names[s.name] = true
	}
	return sources, nil
}

// readFolder reads a folder of blocks, or one that has such folders and summaries.
func readFolder(ctx context.Context, dir string) ([]*source, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unusable(err)
	}
	var sources []*source
	blocks := &source{name: folderName(dir)}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.IsDir() && strings.HasSuffix(entry.Name(), "_block_region_dists"):
			found, err := readFolder(ctx, path)
			if err != nil {
				return nil, err
			}
			sources = append(sources, found...)
		case entry.IsDir():
		case blockFile.MatchString(entry.Name()):
			d, err := readDistribution(ctx, path)
			if err != nil {
				return nil, err
			}
			if d.Block == nil {
				return nil, fmt.Errorf("%s: no block: give the file as \"warpline ikp\" wrote it", path)
			}
			blocks.blocks = append(blocks.blocks, d)
		case isSummary(entry.Name()):
			d, err := readDistribution(ctx, path)
			if err != nil {
				return nil, err
			}
			sources = append(sources, &source{name: stem(path), summary: d})
		}
	}
	if len(blocks.blocks) > 0 {
		sources = append(sources, blocks)
	}
	if len(sources) == 0 {
		return nil, unusable(fmt.Errorf("%s: no _summary.json and no block_N.json: make them with \"warpline ikp\", blocks by "+
			"emit_block_region_distributions in the options of its input", dir))
	}
	return sources, nil
}

// order sorts the blocks, of which none may be there twice.
func (s *source) order() error {
	slices.SortStableFunc(s.blocks, func(a, b *distribution) int { return cmp.Compare(*a.Block, *b.Block) })
	for i := 1; i < len(s.blocks); i++ {
		if *s.blocks[i].Block == *s.blocks[i-1].Block {
			return unusable(fmt.Errorf("block %d is there twice: name each file once, and blocks of one launch at a time", *s.blocks[i].Block))
		}
		if a, b := s.blocks[i].unit(), s.blocks[i-1].unit(); a != b {
			return unusable(fmt.Errorf("block %d is in %s and block %d in %s: name blocks of one launch at a time", *s.blocks[i].Block, a,
				*s.blocks[i-1].Block, b))
		}
	}
	return nil
}

// stem is the name of a file without what says its kind.
func stem(path string) string {
	return safe(strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".json"))
}

func folderName(dir string) string {
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	return safe(filepath.Base(dir))
}
