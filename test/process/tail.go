package process

import (
	"io"
	"os"
	"strings"
)

// tailBytes bounds how much of a log is read for its last lines.
const tailBytes = 16 << 10

// Tail returns the last lines of a file, indented for quoting, or a note that there is nothing to show.
func Tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return "  (no log: " + err.Error() + ")"
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
			return "  (no log: " + err.Error() + ")"
		}
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return "  (no log: " + err.Error() + ")"
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "  (the log is empty)"
	}
	all := strings.Split(text, "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "  " + strings.Join(all, "\n  ")
}
