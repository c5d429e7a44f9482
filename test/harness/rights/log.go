package rights

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Log reads an audit log while it is being written.
type Log struct {
	*Record

	file  *os.File
	lines *bufio.Reader
	// partial is the beginning of a line that is not complete yet.
	partial []byte
}

// OpenLog opens a file with one event per line.
func OpenLog(path string) (*Log, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return &Log{Record: NewRecord(), file: file, lines: bufio.NewReader(file)}, nil
}

// Read records the events that were written since the last call.
func (l *Log) Read() error {
	for {
		line, err := l.lines.ReadBytes('\n')
		l.partial = append(l.partial, line...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		event := &auditv1.Event{}
		if err := json.Unmarshal(l.partial, event); err != nil {
			return fmt.Errorf("read audit log: %w: %s", err, l.partial)
		}
		l.partial = l.partial[:0]
		l.Note(event)
	}
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }
