// Package meaning finds the known name that an unknown one probably means. It compares words before letters: tls-ports is
// closer to https-ports than http-ports is.
package meaning

import (
	"slices"
	"strings"
)

// The distances of words, and of words that only one of two names has.
const (
	plural       = 1
	synonym      = 2
	perTypo      = 2
	abbreviation = 3
	// filler is for a word such as type that adds little to a name.
	filler = 2
	// missing is for any other word of the known name, extra for one of the unknown name.
	missing = 6
	extra   = 8
	// opposite is more than any name is long.
	opposite = 1000
)

// A name with more bytes or words than this has no nearest one: the search takes time in proportion to both.
const (
	maxBytes = 128
	maxWords = 16
)

// Match is the known name that is nearest to an unknown one.
type Match struct {
	Name string
	// Near is true if the unknown name probably means it.
	Near bool
	// Typo is true if the two differ only in how they are spelled: in letters, case or separators. A number is never a
	// typo of another one, and neither is a word of other known names.
	Typo bool
	// Distance is 0 for equal names and grows with what has to be changed.
	Distance int
}

// Vocabulary holds known names. It is immutable.
type Vocabulary struct {
	names []name
	// words are the different words of the names.
	words []string
}

type name struct {
	text, joined string
	// words are indices in the words of the Vocabulary.
	words []int
}

// NewVocabulary returns the Vocabulary of names.
func NewVocabulary(names []string) *Vocabulary {
	v := &Vocabulary{}
	index := map[string]int{}
	for _, text := range names {
		words := split(text)
		n := name{text: text, joined: strings.Join(words, "")}
		for _, word := range words {
			at, known := index[word]
			if !known {
				at = len(v.words)
				index[word] = at
				v.words = append(v.words, word)
			}
			n.words = append(n.words, at)
		}
		v.names = append(v.names, n)
	}
	return v
}

// split returns the words of a name in lower case. Placeholders are words.
func split(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return strings.ContainsRune("-_./", r) })
}

// Nearest returns the name closest to an unknown one, the first among equals. ok is false if there is none.
func (v *Vocabulary) Nearest(unknown string) (best Match, ok bool) {
	if len(unknown) > maxBytes || len(v.names) == 0 {
		return Match{}, false
	}
	words := split(unknown)
	if len(words) > maxWords {
		return Match{}, false
	}
	c := &comparison{words: words, joined: strings.Join(words, ""), to: v.changes(words), known: len(v.words)}
	for i, n := range v.names {
		m := c.with(n, v.words)
		m.Name = n.text
		if i == 0 || m.Distance < best.Distance {
			best = m
		}
	}
	best.Near = best.Distance <= max(missing, perTypo*content(words))
	best.Typo = best.Typo && best.Near
	return best, true
}

// content returns the number of words that are no fillers.
func content(words []string) int {
	n := 0
	for _, word := range words {
		if !slices.Contains(fillers, word) {
			n++
		}
	}
	return n
}

// change is what turns one word into another.
type change struct {
	distance int
	// typo is true for equal words and for misspellings.
	typo bool
}

// changes returns the changes from words to every word of the vocabulary, one word after the other.
func (v *Vocabulary) changes(words []string) []change {
	all := make([]change, 0, len(words)*len(v.words))
	for _, word := range words {
		known := slices.Contains(v.words, word) || isWord(word)
		for _, other := range v.words {
			all = append(all, compare(word, other, known))
		}
	}
	return all
}

// compare returns the change from a word to another. known is true if the word is one of its own, and not
// misspelled.
func compare(word, other string, known bool) change {
	switch {
	case word == other:
		return change{0, true}
	case strings.HasPrefix(other, "{"): // a placeholder, such as {port}
		return change{plural, true}
	case opposed(word, other):
		return change{distance: opposite}
	case word+"s" == other || other+"s" == word:
		return change{plural, true}
	case synonymous(word, other):
		return change{distance: synonym}
	}
	short := min(len(word), len(other))
	if most := max(1, short/4); (short > 2 || short == 2 && len(word) != len(other)) && !known {
		if typos, digits := edits(word, other, most); typos <= most && !digits {
			return change{perTypo * typos, true}
		}
	}
	if short > 2 && (strings.HasPrefix(word, other) || strings.HasPrefix(other, word)) {
		return change{distance: abbreviation}
	}
	return change{distance: missing + extra}
}

// comparison compares one unknown name with known ones.
type comparison struct {
	words  []string
	joined string
	// to holds the changes of each word to every known word, of which there are so many.
	to    []change
	known int
	// rows are the memory of with.
	rows [2][maxWords + 1]change
}

func (c *comparison) change(word, known int) change { return c.to[word*c.known+known] }

// with returns the distance of the unknown name to a known one: the least sum of changes that turns one list of words
// into the other, or fewer if only the separators differ.
func (c *comparison) with(n name, vocabulary []string) Match {
	if c.joined == n.joined {
		return Match{Distance: plural, Typo: true}
	}
	before, row := &c.rows[0], &c.rows[1]
	before[0] = change{0, true}
	for i, word := range c.words {
		before[i+1] = change{before[i].distance + gap(word, extra), false}
	}
	for _, at := range n.words {
		left := gap(vocabulary[at], missing)
		row[0] = change{before[0].distance + left, false}
		for i, word := range c.words {
			step := c.change(i, at)
			row[i+1] = least(
				change{before[i].distance + step.distance, before[i].typo && step.typo},
				change{before[i+1].distance + left, false},
				change{row[i].distance + gap(word, extra), false},
			)
		}
		before, row = row, before
	}
	m := Match{Distance: before[len(c.words)].distance, Typo: before[len(c.words)].typo}
	if len(c.words) != len(n.words) && c.contradicts(n) {
		m.Distance += opposite
	} else if len(c.words) != len(n.words) {
		most := max(1, len(n.joined)/8)
		if typos, digits := edits(c.joined, n.joined, most); typos <= most && !digits && plural+perTypo*typos < m.Distance {
			m = Match{Distance: plural + perTypo*typos, Typo: true}
		}
	}
	return m
}

// contradicts reports whether a word of the unknown name is the opposite of one of the known name that it lacks.
func (c *comparison) contradicts(n name) bool {
	for i := range c.words {
		for _, at := range n.words {
			if c.change(i, at).distance >= opposite && !slices.ContainsFunc(n.words, func(other int) bool { return c.change(i, other).distance == 0 }) {
				return true
			}
		}
	}
	return false
}

func least(a change, others ...change) change {
	for _, b := range others {
		if b.distance < a.distance {
			a = b
		}
	}
	return a
}

func gap(word string, distance int) int {
	if slices.Contains(fillers, word) {
		return filler
	}
	return distance
}

// edits returns the number of letters to add, remove, replace or swap with the next one, and whether one is a digit. It
// is not exact above most.
func edits(a, b string, most int) (typos int, digits bool) {
	if max(len(a)-len(b), len(b)-len(a)) > most {
		return most + 1, false
	}
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if strings.ContainsAny(a+b, "0123456789") {
		digits = true
	}
	var memory [3][maxBytes + 1]int
	last, before, row := &memory[0], &memory[1], &memory[2]
	for j := range len(b) + 1 {
		before[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(before[j]+cost, before[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], last[j-1]+1)
			}
		}
		last, before, row = before, row, last
	}
	return before[len(b)], digits
}
