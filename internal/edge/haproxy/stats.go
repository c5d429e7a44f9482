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

// stats returns the rows of HAProxy's statistics by the names of their columns.
func (e *Engine) stats(ctx context.Context, worker, what int) ([]map[string]string, error) {
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

func parseStats(answer string) ([]map[string]string, error) {
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
	rows := make([]map[string]string, 0, len(records)-1)
	for _, record := range records[1:] {
		row := make(map[string]string, len(record))
		for i, value := range record {
			if i < len(records[0]) {
				row[records[0][i]] = value
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}
