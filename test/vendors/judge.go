package vendors

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Verdict is what the vendor's own code says about a Service; the zero Verdict accepts it.
type Verdict struct {
	// Error is the vendor's error if it refuses the Service.
	Error string `json:"error,omitempty"`
	// Warning is what the vendor's code only warns of.
	Warning string `json:"warning,omitempty"`
	// Skip is the reason if the vendor's code does not look at the Service.
	Skip string `json:"skip,omitempty"`
}

func (v Verdict) String() string {
	switch {
	case v.Error != "":
		return "refuses it: " + v.Error
	case v.Warning != "":
		return "accepts it with a warning: " + v.Warning
	case v.Skip != "":
		return "does not look at it: " + v.Skip
	}
	return "accepts it"
}

// problem returns the error or the warning.
func (v Verdict) problem() string { return cmp.Or(v.Error, v.Warning) }

// Judge returns the verdicts of Services, as the API server stores them, in the same order.
type Judge interface {
	Judge(services []*corev1.Service) ([]Verdict, error)
}

// Description describes what a judge calls; see package judge in tools/vendors.
type Description struct {
	Vendor     string   `json:"vendor"`
	Module     string   `json:"module"`
	Version    string   `json:"version"`
	Date       string   `json:"date"`
	Covers     string   `json:"covers"`
	NotCovered []string `json:"notCovered"`
}

// Process is a Judge that is another program.
type Process struct {
	Description

	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tail
}

var _ Judge = (*Process)(nil)

// batchTimeout bounds the time that the program may take for the Services of one call.
const batchTimeout = 2 * time.Minute

// Start starts the program at a path. The context ends it.
func Start(ctx context.Context, path string) (*Process, error) {
	described, err := exec.CommandContext(ctx, path, "-describe").Output() //nolint:gosec // the program of the caller
	if err != nil {
		return nil, fmt.Errorf("run %s -describe: %w", path, err)
	}
	p := &Process{cmd: exec.CommandContext(ctx, path), stderr: &tail{}} //nolint:gosec // the program of the caller
	if err := json.Unmarshal(described, &p.Description); err != nil {
		return nil, fmt.Errorf("decode the output of %s -describe: %w", path, err)
	}
	p.cmd.Stderr = p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	p.out = bufio.NewReaderSize(out, 1<<20)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// Judge implements Judge.
func (p *Process) Judge(services []*corev1.Service) ([]Verdict, error) {
	timer := time.AfterFunc(batchTimeout, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	wrote := make(chan error, 1)
	go func() {
		writer := bufio.NewWriterSize(p.in, 1<<20)
		encoder := json.NewEncoder(writer)
		for _, svc := range services {
			if err := encoder.Encode(svc); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- writer.Flush()
	}()
	verdicts := make([]Verdict, len(services))
	for i := range verdicts {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait() // then its messages are complete
			return nil, fmt.Errorf("read verdict %d of %d: %w; the judge's last messages: %s", i+1, len(services), err, p.stderr)
		}
		if err := json.Unmarshal(line, &verdicts[i]); err != nil {
			return nil, fmt.Errorf("decode the verdict %q: %w", line, err)
		}
	}
	if err := <-wrote; err != nil {
		return nil, fmt.Errorf("write Services: %w", err)
	}
	return verdicts, nil
}

// Stop ends the program.
func (p *Process) Stop() error {
	if err := p.in.Close(); err != nil {
		return fmt.Errorf("stop the judge: %w", err)
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("stop the judge: %w; its last messages: %s", err, p.stderr)
	}
	return nil
}

// tail keeps the end of what is written. Vendors' code logs every Service.
type tail struct{ buffer bytes.Buffer }

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	if t.buffer.Len() > 64*tailBytes {
		kept := bytes.Clone(t.buffer.Bytes()[t.buffer.Len()-tailBytes:])
		t.buffer.Reset()
		t.buffer.Write(kept)
	}
	return t.buffer.Write(p)
}

func (t *tail) String() string {
	text := t.buffer.Bytes()
	return string(text[max(0, len(text)-tailBytes):])
}
