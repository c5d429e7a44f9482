package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"
)

// TokenFile is the path of a file with a bearer token.
type TokenFile string

// Read is the token as it is now in the file, without the space around it. The error names the file and never the token.
func (f TokenFile) Read() (string, error) {
	data, err := os.ReadFile(string(f))
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if err := checkToken(token); err != nil {
		return "", fmt.Errorf("token file %s: %w", f, err)
	}
	return token, nil
}

func checkToken(token string) error {
	if token == "" {
		return errors.New("is empty; put the cloud's bearer token into it")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return errors.New("must hold one token of printable ASCII without spaces, and nothing else")
	}
	return nil
}
