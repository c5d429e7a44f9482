//go:build linux

package kernel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"time"

	"quaymaster.dev/internal/edge/state"
)

// A mark is markPrefix with a number from 1 to maxMarks. Flows in the kernel carry marks, so a number keeps its target
// across restarts.
const (
	markPrefix = 0x4d430000
	markMask   = 0xffff0000
	maxMarks   = 0xffff
)

// memory is what the engine must know after a restart.
type memory struct {
	// Marks has the number of each target.
	Marks map[string]uint32 `json:"marks"`
	// Kept has the targets whose connections go on, by listener: a member's until the time, or, if that is zero, as long
	// as it is a member.
	Kept map[string]map[string]time.Time `json:"kept"`
	// Settings are the kernel's settings as they were before the engine changed them.
	Settings map[string]string `json:"settings"`
}

func newMemory() *memory {
	return &memory{
		Marks: map[string]uint32{}, Kept: map[string]map[string]time.Time{}, Settings: map[string]string{},
	}
}

// mark returns the mark of a target, and assigns one that no target has.
func (m *memory) mark(t target) uint32 {
	name := t.String()
	if number, ok := m.Marks[name]; ok {
		return markPrefix | number
	}
	if len(m.Marks) == maxMarks {
		m.forget()
	}
	used := make(map[uint32]bool, len(m.Marks))
	for _, number := range m.Marks {
		used[number] = true
	}
	number := uint32(1)
	for used[number] {
		number++
	}
	m.Marks[name] = number
	return markPrefix | number
}

// forget releases the numbers of targets that no listener uses.
func (m *memory) forget() {
	used := map[string]bool{}
	for _, targets := range m.Kept {
		for name := range targets {
			used[name] = true
		}
	}
	maps.DeleteFunc(m.Marks, func(name string, _ uint32) bool { return !used[name] })
}

func (m *memory) clone() *memory {
	return &memory{Marks: maps.Clone(m.Marks), Kept: maps.Clone(m.Kept), Settings: maps.Clone(m.Settings)}
}

// store is a file with a value in JSON.
type store struct {
	path  string
	saved []byte
}

// load reads the file into a value, which stays as it is if there is no file.
func (s *store) load(into any) error {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("load %s: %w", s.path, err)
	}
	s.saved = data
	return nil
}

// save replaces the file at once, if it differs.
func (s *store) save(value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	if bytes.Equal(data, s.saved) {
		return nil
	}
	if err := state.Replace(s.path, data); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	s.saved = data
	return nil
}
