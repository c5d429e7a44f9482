package vendors

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMain lets the program of the tests be the other process: it refuses every Service by name, and dies of one.
func TestMain(m *testing.M) {
	if os.Getenv("JUDGE") == "" {
		os.Exit(m.Run())
	}
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stdout, `{"vendor":"example","version":"v1"}`)
		os.Exit(0)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var svc corev1.Service
		if err := json.Unmarshal(in.Bytes(), &svc); err != nil || svc.Name == "deadly" {
			fmt.Fprintln(os.Stderr, "died of", svc.Name)
			os.Exit(1)
		}
		fmt.Fprintf(os.Stdout, "{\"error\":%q}\n", svc.Name)
	}
	os.Exit(0)
}

func TestProcess(t *testing.T) {
	t.Setenv("JUDGE", "1")
	process, err := Start(t.Context(), os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if process.Vendor != "example" || process.Version != "v1" {
		t.Errorf("described as %+v", process.Description)
	}
	named := func(name string) *corev1.Service { return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	var many []*corev1.Service
	for i := range 5000 {
		many = append(many, named(fmt.Sprint("web-", i)))
	}
	verdicts, err := process.Judge(many)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range verdicts {
		if v.Error != many[i].Name {
			t.Fatalf("verdict %d is %+v", i, v)
		}
	}
	if _, err := process.Judge([]*corev1.Service{named("web"), named("deadly"), named("web")}); err == nil ||
		!strings.Contains(err.Error(), "died of deadly") || !strings.Contains(err.Error(), "verdict 2 of 3") {
		t.Errorf("got %v", err)
	}
	if err := process.Stop(); err == nil {
		t.Error("no error of a process that died")
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	text := &tail{}
	for range 100000 {
		fmt.Fprintln(text, "many messages")
	}
	fmt.Fprint(text, "the last one")
	if !strings.HasSuffix(text.String(), "the last one") || text.buffer.Len() > 70*tailBytes || len(text.String()) > tailBytes {
		t.Errorf("kept %d bytes of which %d are shown", text.buffer.Len(), len(text.String()))
	}
}
