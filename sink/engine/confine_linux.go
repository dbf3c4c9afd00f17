package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stageEnv tells a child that it is already within its domain, and which descriptors it brought along: stdin and the terminal's other
// side, -1 for none.
const stageEnv = "WARPLINE_ENGINE_STAGE"

// What may be done with files, in Landlock's words. The sets are cut down to what the kernel knows.
const (
	fileRead  = unix.LANDLOCK_ACCESS_FS_READ_FILE
	fileRun   = unix.LANDLOCK_ACCESS_FS_EXECUTE
	dirRead   = unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	dirWrite  = unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REFER
	ofFiles = fileRead | fileRun | fileWrite | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV // what a rule for a file, not a folder, may name
)

// handled are all rights on files that a version of Landlock knows; what is handled and not granted is refused.
func handled(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	for _, added := range []struct {
		abi   int
		right uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}} {
		if abi >= added.abi {
			rights |= added.right
		}
	}
	return rights
}

// confine puts this process into a Landlock domain: it may read and write its own data, write its logs, run its library, listen on its two
// ports, and nothing else; no file elsewhere, no connection out, no signal to others. A domain belongs to a thread, and there are many
// threads before main starts, so the thread that entered it starts the program anew: an exec keeps the domain and ends all other threads.
// It returns only with an error: why the process is not confined. carried are descriptors for takeStage.
func confine(cfg childConfig, configPath string, stdin, master *os.File) error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("the kernel has no Landlock, or it is switched off (%w)", errno)
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled(int(abi))}
	if abi >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("make a Landlock ruleset: %w", errno)
	}
	defer unix.Close(int(fd))
	for _, r := range cfg.rules() {
		if err := allow(int(fd), r, attr.Handled_access_fs); err != nil {
			return err
		}
	}
	if abi >= 4 {
		for _, port := range cfg.Ports {
			rule := netPortAttr{access: unix.LANDLOCK_ACCESS_NET_BIND_TCP, port: uint64(port)}
			_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, fd, ruleNetPort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
			if errno != 0 {
				return fmt.Errorf("allow port %d: %w", port, errno)
			}
		}
	}
	// The kernel may drop the folder of a process in /proc and make it anew, and a rule holds only for the one for which it was made. A
	// descriptor that outlives the exec keeps that one.
	self, err := unix.Open("/proc/self", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("open /proc/self: %w", err)
	}
	if err := allow(int(fd), rule{"/proc/self/fd/" + strconv.Itoa(self), fileRead | dirRead, false}, attr.Handled_access_fs); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread() // reached only where the domain was not entered or the process goes on to end
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("enter the Landlock domain: %w", errno)
	}
	stage := []string{childEnv + "=" + configPath, stageEnv + "=" + carry(stdin) + "," + carry(master)}
	err = syscall.Exec("/proc/self/exe", os.Args, append(childEnviron(), stage...))
	return fmt.Errorf("start again within the Landlock domain: %w", err)
}

// ruleNetPort and netPortAttr are what golang.org/x/sys lacks.
const ruleNetPort = 2 // LANDLOCK_RULE_NET_PORT

type netPortAttr struct{ access, port uint64 }

// rule grants rights on a file, or on a folder and all beneath it.
type rule struct {
	path     string
	rights   uint64
	optional bool // not there on every system
}

// rules are the files of an engine. Its users file is in config and holds hashes of long random passwords; the passwords themselves are
// outside of that folder, where the engine may not look. In /proc and /sys it may read its own process (see confine), and how much memory
// and how many processors there are.
func (cfg childConfig) rules() []rule {
	rules := []rule{
		{cfg.Data, fileRead | dirRead | fileWrite | dirWrite, false},
		{cfg.Logs, dirRead | fileWrite | dirWrite, false}, // written, never read: they quote other users' queries
		{filepath.Dir(cfg.ConfigXML), fileRead | dirRead, false},
		{cfg.Library, fileRead | fileRun, false},
		{"/dev/null", fileRead | fileWrite, false},
		{"/dev/urandom", fileRead, false},
		{"/usr/share/zoneinfo", fileRead | dirRead, true},
		{"/etc/localtime", fileRead, true},
		{"/etc/ld.so.cache", fileRead, true},
		{"/proc/meminfo", fileRead, true},
		{"/proc/stat", fileRead, true},
		{"/proc/cpuinfo", fileRead, true},
		{"/proc/sys/vm/max_map_count", fileRead, true},
		{"/proc/sys/vm/overcommit_memory", fileRead, true},
		{"/sys/devices/system/cpu", fileRead | dirRead, true},
		{"/sys/fs/cgroup", fileRead | dirRead, true},
		{"/sys/kernel/mm/transparent_hugepage", fileRead | dirRead, true},
	}
	for path := range mapped() {
		rules = append(rules, rule{path, fileRead | fileRun, true})
		if strings.Contains(filepath.Base(path), ".so") { // the engine's library wants others from the same folders
			rules = append(rules, rule{filepath.Dir(path), fileRead | fileRun, true})
		}
	}
	if cfg.Remove != "" {
		rules = append(rules,
			rule{cfg.Remove, dirRead | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR, false},
			rule{filepath.Dir(cfg.Remove), unix.LANDLOCK_ACCESS_FS_REMOVE_DIR, false}) // which only empty folders can be
	}
	return rules
}

// mapped are the files that this process runs from: itself, by the name that works when its file was replaced, and C's libraries.
func mapped() map[string]bool {
	files := map[string]bool{"/proc/self/exe": true}
	b, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(b)) {
		if at := strings.IndexByte(line, '/'); at > 0 && strings.Contains(line, ".so") {
			files[strings.TrimSpace(line[at:])] = true
		}
	}
	return files
}

// allow adds a rule to a ruleset.
func allow(ruleset int, r rule, handled uint64) error {
	fd, err := unix.Open(r.path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) && r.optional {
		return nil
	}
	if err != nil {
		return fmt.Errorf("allow %s: %w", r.path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("allow %s: %w", r.path, err)
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: r.rights & handled, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		attr.Allowed_access &= ofFiles
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)),
		0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allow %s: %w", r.path, errno)
	}
	return nil
}

// carry lets a descriptor outlive exec and returns its number.
func carry(f *os.File) string {
	if f == nil {
		return "-1"
	}
	fd := int(f.Fd())
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0) // a descriptor that is open can be flagged
	return strconv.Itoa(fd)
}

// takeStage returns the descriptors that confine carried, and whether it ran.
func takeStage() (stdin, master *os.File, confined bool) {
	in, out, ok := strings.Cut(os.Getenv(stageEnv), ",")
	os.Unsetenv(stageEnv)
	if !ok {
		return nil, nil, false
	}
	return taken(in, "stdin"), taken(out, "/dev/ptmx"), true
}

func taken(number, name string) *os.File {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 0 {
		return nil
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}
