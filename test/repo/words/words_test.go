// Package words checks the language of the project: documentation, comments and messages must be easy to read for busy
// engineers, many of whom are not native speakers. It rejects phrases that readers stumbled over, and names the
// replacement.
package words

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// phrase is an expression that the project does not use, in any case. A space in find also matches a line break.
type phrase struct {
	find string
	// except matches uses that are fine, from the start of what find matches.
	except string
	// instead is what to write.
	instead string
}

var phrases = []phrase{
	// Combinations.
	{find: `\bstand(s|ing)? beside\b`, instead: `"requires", "must not be combined with" or "next to"`},
	{
		find: `\b(may|can|must|could|should)( not)? stand\b`, except: `\w+( not)? stand(s| by| for| in)\b`,
		instead: `"is allowed" or "must be used"`,
	},
	{
		find:    `\bbeside (it|them|each other|that|these|those|ours|another|others)\b`,
		instead: `"next to", "in addition to" or "except for"`,
	},

	// Values.
	{
		find: `\bit is no [a-z]+`, except: `it is no (longer|more|different|better|worse|problem|use)\b`,
		instead: `"it is not a …"`,
	},
	{
		find: `\b(a|the|which|that|value|what) is no ` +
			`(integer|number|duration|boolean|list|name|path|json|yaml|map|object|key|verdict)\b`,
		instead: `"is not a …" or "must be …"`,
	},
	{find: `\b(that|which) (is|are) none\b`, instead: `"is not a valid …"`},
	{find: `\b(is|are) none of\b`, except: `\w+ none of (the above|them|these|those)\b`, instead: `"is not one of"`},
	{find: `\btoo great\b`, instead: `"must be at most …" or "too large"`},
	{find: `\bwhole numbers?\b`, instead: `"integer"`},
	{find: `\bdigits 0 to 9 may occur\b`, instead: `"must be an integer"`},
	{find: `\bthe nearest is\b`, instead: `"did you mean …?"`},

	// Software neither speaks nor judges.
	{find: `\b(tell|tells|told|say|says) whether\b`, instead: `"reports whether" or "is true if"`},
	{find: `\btells? (which|what|that|why|how)\b`, instead: `"reports", "shows" or "records"`},
	{find: `\b(say|says|said) of\b`, instead: `"reports about" or "describes"`},
	{find: `\btells? of\b`, instead: `"reports" or "describes"`},
	{
		find: `\b(is|are|was|were|be|been) told\b`, except: `\w+ told apart\b`,
		instead: `"is reported", "is passed" or "receives"`,
	},
	{find: `\b(left to say|said then)\b`, instead: `"the remaining problems are reported next time"`},
	{
		find:    `\bjudg(e|es|ed|ing|ment|ments|ement|ements)\b`,
		except:  `judges?\b`, // the programs in tools/vendors
		instead: `"validate" or "check"`,
	},
	{find: `\bha(s|ve|d) come of\b`, instead: `"result" or "state"`},

	// Verbs.
	{find: `\b(let|lets|letting) go\b`, instead: `"release" or "remove"`},
	{find: `\bmend(s|ed|ing)?\b`, instead: `"fix", "correct" or "repair"`},
	{find: `\bputs? right\b`, instead: `"repair" or "correct"`},
	{find: `\b(take|takes|took|taken|taking) away\b`, instead: `"remove"`},
	{find: `\b(do|does|did) not mind\b`, instead: `"accepts" or "does not depend on"`},
	{
		find: `\b(is|are) how\b`, except: `\w+ how (many|much|far|long|often|soon|fast|old|large|to|you)\b`,
		instead: `a verb, such as "X decodes files" for "X is how files are decoded"`,
	},
	{find: `\bbe rid of\b`, instead: `"remove"`},
	{find: `\basks? of\b`, instead: `"requires"`},

	// People.
	{find: `\b(nobody|somebody|everybody)\b`, instead: `the role, such as "a user" or "no controller"`},
	{find: `\bwhoever\b`, instead: `the role, such as "users who"`},
	{find: `\b(his|himself)\b`, instead: `"their" or the role`},

	// Idioms.
	{find: `\bto be had\b`, instead: `"available"`},
	{find: `\bonce more\b`, instead: `"again"`},
	{find: `\banew\b`, instead: `"again"`},
	{find: `\bwithout a word\b`, instead: `"silently"`},
	{find: `\bin silence\b`, instead: `"silently"`},
	{find: `\belse than\b`, instead: `"other than"`},

	// Numbers that change.
	{
		find:    `\b(fifteen|sixteen|seventeen|eighteen) (other )?(clouds|catalogs|controllers)\b`,
		instead: `"other clouds", with a link to docs/reference/catalogs.md`,
	},
}

// skipped are folders and files without text of ours: built programs, state, third-party files and this test.
var skipped = []string{
	".git", ".dev", "bin", "dist", "test/repo/words", "examples/client/client.gen.go",
	"internal/tool/report/testdata/sarif-schema-2.1.0.json",
}

// checked are the suffixes of the names of files with text: documentation, manifests, templates, scripts and golden
// files. Of Go files, only comments and string literals are checked.
var checked = []string{".go", ".md", ".yaml", ".yml", ".tpl", ".txt", ".json", ".sh", "Makefile", "Containerfile"}

// TestWords has one subtest for each folder of the repository, and "root" for the files in it.
func TestWords(t *testing.T) {
	const root = "../../.."
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	files := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch isChecked := func(suffix string) bool { return strings.HasSuffix(name, suffix) }; {
		case slices.Contains(skipped, name) && entry.IsDir():
			return filepath.SkipDir
		case slices.Contains(skipped, name), !entry.Type().IsRegular(), !slices.ContainsFunc(checked, isChecked):
			return nil
		}
		folder, _, nested := strings.Cut(name, "/")
		if !nested {
			folder = "root"
		}
		files[folder] = append(files[folder], name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m := newMatcher(t)
	for folder, names := range files {
		t.Run(folder, func(t *testing.T) {
			for _, name := range names {
				raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
				if err != nil {
					t.Fatal(err)
				}
				found, err := m.file(name, raw)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				for _, f := range found {
					t.Errorf("%s:%d: %q: write %s", name, f.line, f.text, f.instead)
				}
			}
		})
	}
}

func TestMatcher(t *testing.T) {
	tests := map[string]struct {
		name, text string
		want       []string
	}{
		"markdown":             {"a.md", "One.\n\nIt tells whether it works.\n", []string{"3 tells whether"}},
		"across lines":         {"a.md", "- It tells\n  whether it works.\n", []string{"1 tells whether"}},
		"across paragraphs":    {"a.md", "What it tells\n\nwhether or not.\n", nil},
		"identifier in code":   {"a.md", "The function `policy.Judge` is old.\n", nil},
		"message in code":      {"a.md", "It prints `it is no number`.\n", []string{"1 it is no number"}},
		"comment in YAML":      {"a.yaml", "a: 1\n# Who\n# it tells\n# whether.\n", []string{"3 tells whether"}},
		"upper case":           {"a.yaml", "help: Nobody reads it.\n", []string{"1 Nobody"}},
		"exception":            {"a.md", "It is no longer used, which is how often it happens.\n", nil},
		"part of a word":       {"a.md", "A recommended amendment.\n", nil},
		"comment in Go":        {"a.go", "package a\n\n// f tells\n// whether.\n", []string{"3 tells whether"}},
		"separate comments":    {"a.go", "package a\n\n// f tells\n\n// whether.\n", nil},
		"identifier in Go":     {"a.go", "package a\n\nvar mend = judge.nobody\n", nil},
		"string":               {"a.go", "package a\n\nvar s = \"it is\\tno \\\"number\"\n", nil},
		"string over lines":    {"a.go", "package a\n\nvar s = \"once\" +\n\t\" more\"\n", []string{"3 once more"}},
		"raw string":           {"a.go", "package a\n\nvar s = `a\nb\nanew`\n", []string{"5 anew"}},
		"several":              {"a.go", "package a // anew\n// judged anew\n", []string{"1 anew", "2 judged", "2 anew"}},
		"comment between both": {"a.go", "package a\n\nvar s = \"once\" + // more\n\t\"x\"\n", nil},
	}
	m := newMatcher(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found, err := m.file(test.name, []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, fmt.Sprintf("%d %s", f.line, f.text))
			}
			if !slices.Equal(test.want, got) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// text is a piece of text in which a phrase may continue from one line to the next.
type text struct {
	strings.Builder
	// starts are the offsets at which a line of the file starts, in ascending order.
	starts []start
}

type start struct{ offset, line int }

// add appends text that starts in the line of the file; every line break in it starts the next one.
func (t *text) add(line int, s string) {
	t.starts = append(t.starts, start{t.Len(), line})
	for i := range len(s) {
		if s[i] == '\n' {
			line++
			t.starts = append(t.starts, start{t.Len() + i + 1, line})
		}
	}
	t.WriteString(s)
}

// line returns the line of the file at an offset.
func (t *text) line(offset int) int {
	after, _ := slices.BinarySearchFunc(t.starts, offset+1, func(s start, offset int) int { return s.offset - offset })
	return t.starts[after-1].line
}

// match is one use of a phrase.
type match struct {
	line          int
	text, instead string
}

// matcher finds phrases.
type matcher struct {
	// any matches where at least one phrase may match.
	any     *regexp.Regexp
	phrases []compiled
}

type compiled struct {
	find, except *regexp.Regexp
	instead      string
}

func newMatcher(t *testing.T) *matcher {
	t.Helper()
	compile := func(expression string) *regexp.Regexp {
		found, err := regexp.Compile(`(?i)` + strings.ReplaceAll(expression, " ", `(?:[ \t]+|[ \t]*\n[ \t]*)`))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	m := &matcher{}
	var all []string
	for _, p := range phrases {
		c := compiled{find: compile("^(?:" + p.find + ")"), instead: p.instead}
		if p.except != "" {
			c.except = compile("^(?:" + p.except + ")")
		}
		m.phrases = append(m.phrases, c)
		all = append(all, p.find)
	}
	m.any = compile(strings.Join(all, "|"))
	return m
}

// file returns the matches in a file, in the order in which they occur.
func (m *matcher) file(name string, raw []byte) ([]match, error) {
	texts := []*text{{}}
	if strings.HasSuffix(name, ".go") {
		var err error
		if texts, err = goTexts(raw); err != nil {
			return nil, err
		}
	} else {
		texts[0].add(1, blank(string(raw)))
	}
	var found []match
	for _, t := range texts {
		found = append(found, m.text(t)...)
	}
	slices.SortStableFunc(found, func(a, b match) int { return a.line - b.line })
	return found, nil
}

func (m *matcher) text(t *text) []match {
	var found []match
	s := t.String()
	for _, at := range m.any.FindAllStringIndex(s, -1) {
		for _, p := range m.phrases {
			end := p.find.FindStringIndex(s[at[0]:])
			if end == nil || p.except != nil && p.except.MatchString(s[at[0]:]) {
				continue
			}
			words := strings.Join(strings.Fields(s[at[0]:at[0]+end[1]]), " ")
			found = append(found, match{t.line(at[0]), words, p.instead})
			break
		}
	}
	return found
}

var (
	// marker starts a line of a comment, list or quotation.
	marker = regexp.MustCompile(`(?m)^[ \t]*(?:#+|//|>|[-*+])[ \t]`)
	// identifier is a name in Markdown, as opposed to a message.
	identifier = regexp.MustCompile("`[^`\\s]+`")
)

// blank replaces what does not belong to the words of a text by spaces, so that offsets stay the same.
func blank(s string) string {
	spaces := func(s string) string { return strings.Repeat(" ", len(s)) }
	return identifier.ReplaceAllStringFunc(marker.ReplaceAllStringFunc(s, spaces), spaces)
}

// goTexts returns the comments and string literals of a Go file. Comments in consecutive lines are one text, and so are
// literals that are concatenated.
func goTexts(raw []byte) ([]*text, error) {
	var (
		errs              scanner.ErrorList
		s                 scanner.Scanner
		comments, strs    []*text
		commentEnd        = -1
		inString, hasPlus bool
	)
	file := token.NewFileSet().AddFile("", -1, len(raw))
	s.Init(file, raw, errs.Add, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		line := file.Line(pos)
		switch tok {
		case token.EOF:
			return append(comments, strs...), errs.Err()
		case token.COMMENT:
			if line > commentEnd+1 || commentEnd < 0 {
				comments = append(comments, &text{})
			}
			comments[len(comments)-1].add(line, blank(strings.TrimPrefix(literal, "//"))+"\n")
			commentEnd = line + strings.Count(literal, "\n")
		case token.STRING:
			value, err := strconv.Unquote(literal)
			if err != nil {
				return nil, err
			}
			if !inString || !hasPlus {
				strs = append(strs, &text{})
			}
			if literal[0] != '`' {
				// A line break in the value is none in the file.
				value = strings.ReplaceAll(value, "\n", " ")
			}
			strs[len(strs)-1].add(line, value)
			inString, hasPlus = true, false
		case token.ADD:
			hasPlus = true
		case token.SEMICOLON:
			// An automatic one at the end of a line.
			inString = inString && hasPlus
		default:
			inString, hasPlus = false, false
		}
	}
}
