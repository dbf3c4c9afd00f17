package engine

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// WriterSecret and ReaderSecret are the names of the files in Config.Secrets that hold the two passwords, mode 0600.
const (
	WriterSecret = "writer-password"
	ReaderSecret = "reader-password"
)

// fillSecrets finds or makes the passwords that cfg leaves open. The engine gets only their hashes, which is safe since a password is 130
// random bits, and it may not look into the folder where the passwords are.
func (cfg *Config) fillSecrets() error {
	if cfg.Secrets == "" {
		cfg.Secrets = cfg.Dir
	}
	if err := moveSecret(filepath.Join(cfg.Dir, WriterSecret), filepath.Join(cfg.Secrets, WriterSecret)); err != nil {
		return fmt.Errorf("engine: writer's password: %w", err)
	}
	for _, s := range []struct {
		name string
		to   *string
	}{{WriterSecret, &cfg.Password}, {ReaderSecret, &cfg.ReaderPassword}} {
		if *s.to != "" {
			continue
		}
		var err error
		*s.to, err = keptPassword(filepath.Join(cfg.Secrets, s.name))
		if err != nil {
			return fmt.Errorf("engine: %s: %w", s.name, err)
		}
	}
	if cfg.Slots.Count > 0 {
		var err error
		cfg.slotSecret, err = keptPassword(filepath.Join(cfg.Secrets, SlotSecret))
		if err != nil {
			return fmt.Errorf("engine: %s: %w", SlotSecret, err)
		}
	}
	return nil
}

// moveSecret moves a password to where it is kept today. If both exist, the newer place wins: users get the passwords anew at each start.
func moveSecret(from, to string) error {
	if from == to {
		return nil
	}
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Lstat(to); err == nil {
		return os.Remove(from)
	}
	return os.Rename(from, to)
}

// keptPassword reads the password in path or makes one there. Two processes that make it at once
// end with the same one, since only the first link succeeds.
func keptPassword(path string) (string, error) {
	if b, err := os.ReadFile(path); err == nil {
		if p := strings.TrimSpace(string(b)); p != "" {
			return p, nil
		}
		return "", fmt.Errorf("%s is empty; remove it to have a new one made", path)
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	password := rand.Text()
	tmp, err := os.CreateTemp(filepath.Dir(path), ".writer-password-") // mode 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(password + "\n")
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return "", err
	}
	if err := os.Link(tmp.Name(), path); errors.Is(err, os.ErrExist) {
		return keptPassword(path)
	} else if err != nil {
		return "", err
	}
	return password, nil
}

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
