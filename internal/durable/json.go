package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// JSON is a file with a value.
type JSON struct {
	Path  string
	saved []byte
}

// Load reads the file into a value, which stays as it is if there is no file.
func (j *JSON) Load(into any) error {
	data, err := os.ReadFile(j.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("load %s: %w", j.Path, err)
	}
	j.saved = data
	return nil
}

// Save replaces the file at once, if it differs.
func (j *JSON) Save(value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	if bytes.Equal(data, j.saved) {
		return nil
	}
	if err := Replace(j.Path, data); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	j.saved = data
	return nil
}
