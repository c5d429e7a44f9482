package process

import (
	"context"
	"encoding/csv"
	"fmt"
	"strings"
)

// Row is a row of HAProxy's statistics.
type Row struct {
	columns map[string]int
	fields  []string
}

// Get returns the value of a column; empty if there is none.
func (r Row) Get(column string) string {
	if i, ok := r.columns[column]; ok && i < len(r.fields) {
		return r.fields[i]
	}
	return ""
}

// Frontends returns a worker's statistics of all frontends. It returns an error if the worker does not answer.
func (h *HAProxy) Frontends(ctx context.Context, worker int) ([]Row, error) {
	return h.stats(ctx, worker, 1)
}

// Servers returns a worker's statistics of the servers of all backends. It returns an error if the worker does not answer.
func (h *HAProxy) Servers(ctx context.Context, worker int) ([]Row, error) {
	return h.stats(ctx, worker, 4)
}

// stats returns the statistics of what is of a kind, as HAProxy numbers them.
func (h *HAProxy) stats(ctx context.Context, worker, kind int) ([]Row, error) {
	answer, err := h.Command(ctx, worker, fmt.Sprintf("show stat -1 %d -1", kind), "")
	if err != nil {
		return nil, fmt.Errorf("show stat: %w", err)
	}
	rows, err := parseStats(answer)
	if err != nil {
		return nil, fmt.Errorf("show stat: %w", err)
	}
	return rows, nil
}

func parseStats(answer string) ([]Row, error) {
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
	rows := make([]Row, 0, len(records)-1)
	for _, record := range records[1:] {
		rows = append(rows, Row{columns, record})
	}
	return rows, nil
}
