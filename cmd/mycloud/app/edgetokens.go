package app

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// readEdgeTokens reads the tokens of edges from a file or, if its name is empty, from the environment.
func readEdgeTokens(file, clientToken string) (shared string, own map[string]string, err error) {
	text, source := os.Getenv(edgeTokenVariable), edgeTokenVariable
	if file != "" {
		source = "--edge-token-file"
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", source, err)
		}
		if text = string(raw); strings.TrimSpace(text) == "" {
			return "", nil, fmt.Errorf("%s: %s has no token", source, file)
		}
	}
	if shared, own, err = parseEdgeTokens(text, clientToken); err != nil {
		return "", nil, fmt.Errorf("%s: %w", source, err)
	}
	return shared, own, nil
}

// parseEdgeTokens returns the token that edges share, which is alone on its line, and the tokens of single edges by name,
// which stand after the name on a line each. Errors do not repeat a line, which may be a secret.
func parseEdgeTokens(text, clientToken string) (shared string, own map[string]string, err error) {
	own = map[string]string{}
	used := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		token := words[len(words)-1]
		switch {
		case strings.HasPrefix(words[0], "#"):
			// "# edge-1" would make "edge-1" a token.
			return "", nil, fmt.Errorf("line %d begins with #; the tokens must be without comments", n)
		case len(words) > 2:
			return "", nil, fmt.Errorf("line %d has %d words; it must be TOKEN or NAME TOKEN", n, len(words))
		case token == clientToken:
			return "", nil, errors.New(
				"the token of edges must not be the token of clients; it would allow edges to do everything")
		case used[token]:
			return "", nil, fmt.Errorf("line %d repeats a token; each edge needs its own", n)
		case len(words) == 1 && shared != "":
			return "", nil, fmt.Errorf("line %d is a second shared token; only one line may be without a name", n)
		case len(words) == 1:
			shared = token
		case own[words[0]] != "":
			return "", nil, fmt.Errorf("line %d is a second token of edge %q; remove one", n, words[0])
		default:
			own[words[0]] = token
		}
		used[token] = true
	}
	return shared, own, nil
}
