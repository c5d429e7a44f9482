package haproxy

import (
	"context"
	"encoding/csv"
	"fmt"
	"strings"
)

// What show stat lists.
const (
	statFrontends = 1
	statServers   = 4
)

// stat is a row of HAProxy's statistics.
type stat struct {
	columns map[string]int
	fields  []string
}

// get returns the value of a column; empty if there is none.
func (s stat) get(column string) string {
	if i, ok := s.columns[column]; ok && i < len(s.fields) {
		return s.fields[i]
	}
	return ""
}

// stats returns the rows of HAProxy's statistics.
func (e *Engine) stats(ctx context.Context, worker, what int) ([]stat, error) {
	answer, err := e.master.worker(ctx, worker, fmt.Sprintf("show stat -1 %d -1", what), "")
	if err != nil {
		return nil, fmt.Errorf("show stat: %w", err)
	}
	rows, err := parseStats(answer)
	if err != nil {
		return nil, fmt.Errorf("show stat: %w", err)
	}
	return rows, nil
}

// current returns what HAProxy was last made to do, and rows of its statistics.
func (e *Engine) current(ctx context.Context, what int) (*shown, []stat, error) {
	now := e.shown.Load()
	if now == nil {
		return nil, nil, errNotApplied
	}
	p, err := e.running(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows, err := e.stats(ctx, p.current, what)
	return now, rows, err
}

func parseStats(answer string) ([]stat, error) {
	header, isTable := strings.CutPrefix(answer, "# ")
	if !isTable {
		return nil, fmt.Errorf("unexpected answer %.100q", answer)
	}
	reader := csv.NewReader(strings.NewReader(header))
	reader.FieldsPerRecord = -1
	records, err := reader.ReadAll()
	if err != nil {
		return nil, err
	}
	columns := make(map[string]int, len(records[0]))
	for i, name := range records[0] {
		columns[name] = i
	}
	rows := make([]stat, 0, len(records)-1)
	for _, record := range records[1:] {
		rows = append(rows, stat{columns, record})
	}
	return rows, nil
}
