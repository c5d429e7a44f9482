package main

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNearest: search finds what a misspelled word stands for.
func TestNearest(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("requires node")
	}
	const program = `
		const { nearest } = require("./theme/nearest.js");
		const vocabulary = new Map([["scheduler", 5], ["annotations", 9], ["annotation", 20], ["certificate", 3], ["node", 50], ["mode", 2], ["health", 7]]);
		const words = ["sheduler", "shceduler", "anotation", "certificat", "certifciate", "noed", "helath", "anotat", "xyz", "kubernetes"];
		console.log(JSON.stringify(words.map((word) => nearest(word, vocabulary) ?? "")));`
	out, err := exec.CommandContext(t.Context(), node, "-e", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"scheduler", "scheduler", "annotation", "certificate", "certificate", "node", "health", "annotation", "", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
