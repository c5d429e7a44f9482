package haproxy

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// refusal is why a unit cannot be as it is wanted.
type refusal struct {
	// times is how many forms of the unit were refused: first the one that is wanted, then the one that was accepted.
	times  int
	reason error
}

// refusals are those of the units, by key.
type refusals map[string]*refusal

// refuse notes why HAProxy refuses sections of a plan's configuration. It returns false if no unit is the cause.
func (r refusals) refuse(p *plan, sections map[string]error) bool {
	found := false
	for _, u := range p.units {
		reason, ok := sections[u.key()]
		if !ok {
			reason, ok = sections[p.backendOf[u.key()]]
		}
		if !ok {
			continue
		}
		found = true
		if r[u.key()] == nil {
			r[u.key()] = &refusal{reason: reason}
		}
		r[u.key()].times++
	}
	return found
}

// occupied notes the units whose port another program has, and reports whether there are any.
func (r refusals) occupied(found map[string]error) bool {
	for key, reason := range found {
		if r[key] == nil {
			r[key] = &refusal{1, reason}
		}
	}
	return len(found) > 0
}

// refusedError is returned if HAProxy does not run with a configuration because of some of its sections.
type refusedError struct {
	sections map[string]error
	cause    error
}

func (e *refusedError) Error() string { return e.cause.Error() }

// position matches what HAProxy calls a line of its configuration file.
var position = regexp.MustCompile(`\[[^\]\s]*:([0-9]+)\]\s*:?\s*`)

// blame returns the sections of a configuration that alerts are about, with the first alert of each. HAProxy reads the
// file to its end, so that one attempt finds them all.
func blame(text []byte, alerts []string) map[string]error {
	var sections []string
	current := ""
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 && !strings.HasPrefix(line, " ") {
			current = words[1]
		}
		sections = append(sections, current)
	}
	found := map[string]error{}
	for _, alert := range alerts {
		at := position.FindStringSubmatchIndex(alert)
		if at == nil {
			continue
		}
		line, err := strconv.Atoi(alert[at[2]:at[3]])
		if err != nil || line < 1 || line > len(sections) || sections[line-1] == "" {
			continue
		}
		if section := sections[line-1]; found[section] == nil {
			found[section] = errors.New("haproxy refuses it: " + alert[at[1]:])
		}
	}
	return found
}
