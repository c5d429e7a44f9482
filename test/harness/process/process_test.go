package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func shell(t *testing.T, script string) Spec {
	t.Helper()
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	return Spec{Name: "child", Path: path, Args: []string{"-c", script}, LogDir: t.TempDir()}
}

func start(t *testing.T, spec Spec) *Process {
	t.Helper()
	p, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestExitQuotesTheLog(t *testing.T) {
	p := start(t, shell(t, "echo first; echo second >&2; exit 3"))
	code, err := p.Wait(10 * time.Second)
	if err != nil || code != 3 {
		t.Fatalf("Wait() = %d, %v, want 3", code, err)
	}
	got := p.Exit().Error()
	for _, want := range []string{"child ended: exit status 3", "  first\n  second"} {
		if !strings.Contains(got, want) {
			t.Errorf("Exit() = %q, want it to contain %q", got, want)
		}
	}
}

func TestStop(t *testing.T) {
	tests := map[string]struct {
		script string
		grace  time.Duration
		want   string
	}{
		"ends on SIGTERM":      {script: "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done", grace: 10 * time.Second},
		"ignores SIGTERM":      {script: "trap '' TERM; echo up; while :; do sleep 0.05; done", grace: 200 * time.Millisecond, want: "killed"},
		"has already ended":    {script: "echo up", grace: time.Second},
		"takes its group down": {script: "sleep 60 & echo up; wait", grace: 10 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := start(t, shell(t, tt.script))
			waitFor(t, func() bool { return strings.Contains(Tail(p.Log(), 1), "up") })
			err := p.Stop(tt.grace)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Stop() = %v, want an error with %q", err, tt.want)
			}
			if p.Exit() == nil {
				t.Error("the process is still running after Stop")
			}
		})
	}
}

func TestReapKillsOnlyWhatTheFileNames(t *testing.T) {
	dir := t.TempDir()
	ours := shell(t, "sleep 60")
	ours.Name = "ours"
	orphan := start(t, ours)
	if err := writePIDFile(filepath.Join(dir, "ours.pid"), orphan.PID()); err != nil {
		t.Fatal(err)
	}
	// The same process ID with another start time: the ID was reused.
	stranger := start(t, shell(t, "sleep 60"))
	reused := filepath.Join(dir, "reused.pid")
	if err := os.WriteFile(reused, fmt.Appendf(nil, "%d 1@another-boot\n", stranger.PID()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "torn.pid"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	killed, err := Reap(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(killed) != 1 || killed[0] != "ours" {
		t.Errorf("Reap() killed %v, want only ours", killed)
	}
	if _, err := orphan.Wait(10 * time.Second); err != nil {
		t.Error(err)
	}
	if stranger.Exit() != nil {
		t.Error("Reap killed a process that is not ours")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.pid")); len(left) != 0 {
		t.Errorf("PID files left: %v", left)
	}
}

func TestPIDFileLivesAsLongAsTheProcess(t *testing.T) {
	spec := shell(t, "sleep 60")
	spec.PIDDir = t.TempDir()
	p := start(t, spec)
	if pid, err := livePID(p.pidFile()); err != nil || pid != p.PID() {
		t.Errorf("livePID() = %d, %v, want %d", pid, err, p.PID())
	}
	p.Kill()
	if _, err := os.Stat(p.pidFile()); !os.IsNotExist(err) {
		t.Errorf("PID file after the end: %v", err)
	}
}

func TestStartNamesWhatIsMissing(t *testing.T) {
	_, err := Start(Spec{Name: "ghost", Path: "/nonexistent/ghost", LogDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "start ghost: ") {
		t.Errorf("Start() = %v, want the name of the program", err)
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("condition not met in time")
		}
	}
}
