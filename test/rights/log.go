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

// Log reads an audit log while it grows.
type Log struct {
	*Record

	file  *os.File
	lines *bufio.Reader
	// begun is the part of a line whose end is not written yet.
	begun []byte
}

// OpenLog opens a file with an event a line.
func OpenLog(path string) (*Log, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return &Log{Record: NewRecord(), file: file, lines: bufio.NewReader(file)}, nil
}

// Read notes the events that were written since the last time.
func (l *Log) Read() error {
	for {
		line, err := l.lines.ReadBytes('\n')
		l.begun = append(l.begun, line...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		event := &auditv1.Event{}
		if err := json.Unmarshal(l.begun, event); err != nil {
			return fmt.Errorf("read the audit log: %w: %s", err, l.begun)
		}
		l.begun = l.begun[:0]
		l.Note(event)
	}
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }
