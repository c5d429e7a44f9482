package main

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/test/vendors"
)

// kind is what has happened to a key.
type kind string

// The kinds.
const (
	added    kind = "new"
	gone     kind = "gone"
	changed  kind = "different"
	needless kind = "listed"
	moved    kind = "moved"
)

// difference is a key that needs something to be done.
type difference struct {
	kind kind
	key  string
	at   string // a place in the source, or in this repository if the source lacks the key
	text string
}

func (d difference) String() string { return fmt.Sprintf("%s %s: %s: %s", d.kind, d.key, d.at, d.text) }

// only returns the differences of a kind.
func only(all []difference, k kind) iter.Seq[difference] {
	return func(yield func(difference) bool) {
		for _, d := range all {
			if d.kind == k && !yield(d) {
				return
			}
		}
	}
}

// compare returns what the source, now and at the version of the catalog, says about the catalog; then is empty if the latter
// is not known.
func (c *catalog) compare(now, then map[string][]use) []difference {
	all := slices.Concat(c.added(now), c.gone(now))
	for _, one := range c.Known {
		for _, key := range one.Keys {
			if !slices.ContainsFunc(all, func(d difference) bool { return d.key == key }) {
				all = append(all, difference{needless, key, declared, "the catalog and the source agree; remove the key from this file"})
			}
		}
	}
	all = slices.DeleteFunc(all, func(d difference) bool { return d.kind != needless && c.listed(d.key) })
	if len(then) > 0 {
		all = append(all, c.changed(now, then)...)
	}
	slices.SortStableFunc(all, func(a, b difference) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.key, b.key)) })
	return all
}

// added returns keys of the source that the catalog lacks.
func (c *catalog) added(now map[string][]use) (all []difference) {
	for key, uses := range now {
		if c.knows(key) {
			continue
		}
		at, text := uses[0], "no function mentions it yet"
		if i := slices.IndexFunc(uses, func(u use) bool { return u.function != "" }); i >= 0 {
			at, text = uses[i], uses[i].function+" mentions it"
		}
		all = append(all, difference{added, key, at.String(), text + "; add an entry to the catalog, or list the key in " + declared + " with a reason"})
	}
	return all
}

// gone returns keys of the catalog that no code mentions. Entries that are based on documentation alone are not expected
// to be in the source.
func (c *catalog) gone(now map[string][]use) (all []difference) {
	for _, a := range c.Annotations {
		if !slices.ContainsFunc(a.Source, func(s string) bool { at := reference.FindStringSubmatch(s); return len(at) > 0 && at[2] == "go" }) {
			continue
		}
		for _, name := range a.Names() {
			var uses []use
			for key, places := range now {
				if names(name, key) {
					uses = append(uses, places...)
				}
			}
			at, text := catalogs+"/"+c.Name+".yaml", "the source does not mention it"
			if len(uses) > 0 {
				at, text = uses[0].String(), "no function mentions it"
			}
			if !slices.ContainsFunc(uses, func(u use) bool { return u.function != "" }) {
				all = append(all, difference{gone, name, at, text + "; remove the key from the catalog, or list it in " + declared + " with a reason"})
			}
		}
	}
	return all
}

// changed returns keys of the catalog for which functions differ that mention them: they may treat other values as valid.
// Nothing is said about functions that these call.
func (c *catalog) changed(now, then map[string][]use) (all []difference) {
	for key, uses := range now {
		after, before := functions(uses), functions(then[key])
		if !c.knows(key) || len(then[key]) == 0 || len(after) == 0 {
			continue // it is new or gone
		}
		var texts []string
		at := uses[0]
		for _, name := range slices.Sorted(maps.Keys(after)) {
			switch text, was := before[name]; {
			case !was:
				texts = append(texts, name+" now mentions it")
			case text.text != after[name].text:
				texts = append(texts, name+" has changed")
			default:
				continue
			}
			if len(texts) == 1 {
				at = after[name]
			}
		}
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if _, still := after[name]; !still {
				texts = append(texts, name+" no longer mentions it")
			}
		}
		if len(texts) > 0 {
			all = append(all, difference{changed, key, at.String(), strings.Join(texts, ", ") + " since " + c.Version +
				"; correct the entry if it has to be, then the version of the catalog"})
		}
	}
	return all
}

// reference matches a place in a file, whose repository may be named first, as in ingress-gce pkg/utils/utils.go:7-9,12 or
// kube-vip/pkg/vip/egress.go:219. A commit in it is not looked at. Other sources, such as pages on the web, do not match.
var reference = regexp.MustCompile(`^((?:[\w.-]+ )?[\w./-]+\.(go|md))(?:@\w+)?(?::([\d,-]+))?$`)

// moved returns what refers to files, or lines, that the source no longer has.
func (c *catalog) moved(now []*code, explanations vendors.Explanations) (all []difference) {
	look := func(name, at string, sources []string) {
		for _, source := range sources {
			if match := reference.FindStringSubmatch(source); len(match) > 0 && !has(now, match[1], match[3]) {
				all = append(all, difference{moved, name, at, "the source has no " + source + "; correct the place"})
			}
		}
	}
	for _, a := range c.Annotations {
		look(a.Name, catalogs+"/"+c.Name+".yaml", a.Source)
	}
	for _, one := range c.Checks {
		look(one.ID, catalogs+"/"+c.Name+".yaml", one.Source)
	}
	for _, e := range explanations {
		look(cmp.Or(e.Finding, e.Vendor), path.Join(judges, c.Name, explained), e.Source)
	}
	return all
}

// has reports whether one of the repositories has a file with the lines.
func has(now []*code, file, lines string) bool {
	file = strings.Replace(file, " ", "/", 1)
	return slices.ContainsFunc(now, func(one *code) bool {
		for _, name := range []string{file, strings.TrimPrefix(file, path.Base(one.repository)+"/")} {
			if raw, err := os.ReadFile(filepath.Join(one.root, name)); err == nil {
				return covers(strings.Split(string(raw), "\n"), lines)
			}
		}
		return false
	})
}

// covers reports whether a file has lines such as 7-9,12. If they begin with an empty line or a lone brace, they have moved.
func covers(text []string, lines string) bool {
	for part := range strings.SplitSeq(lines, ",") {
		first, last, _ := strings.Cut(part, "-")
		from, _ := strconv.Atoi(first)
		to, _ := strconv.Atoi(cmp.Or(last, first))
		if max(from, to) > len(text) || from > 0 && !strings.ContainsFunc(text[from-1], unicode.IsLetter) {
			return false
		}
	}
	return true
}

// functions returns the first use in each function, by package and name.
func functions(uses []use) map[string]use {
	all := map[string]use{}
	for _, u := range slices.Backward(uses) {
		if u.function != "" {
			all[path.Dir(u.file)+"."+u.function] = u
		}
	}
	return all
}

// knows reports whether the catalog, or another one of the same repository, mentions a key of the source.
func (c *catalog) knows(key string) bool {
	for _, d := range append(c.siblings, c.Document) {
		if slices.ContainsFunc(d.Annotations, func(a document.Annotation) bool {
			return slices.ContainsFunc(a.Names(), func(name string) bool { return names(name, key) })
		}) {
			return true
		}
		if slices.Contains(d.Reads, key) || slices.Contains(d.Owns.Classes, key) || slices.ContainsFunc(d.Elsewhere, func(known string) bool {
			prefix, rest := strings.CutSuffix(known, "*")
			return key == known || rest && strings.HasPrefix(key, prefix)
		}) {
			return true
		}
	}
	return false
}

// verb matches what fmt replaces in a key, and place a placeholder of a family.
var (
	verb  = regexp.MustCompile(`%[a-z]`)
	place = regexp.MustCompile(`\{[a-z]+\}`)
)

// punctuation separates the parts of keys.
const punctuation = ".-_/"

// names reports whether a text of the source stands for the name of an entry: the key itself, its format, or what the code
// appends the rest of a family's key to.
func names(name, key string) bool {
	if name == key {
		return true
	}
	first := place.FindStringIndex(name)
	if first == nil {
		return false
	}
	return place.ReplaceAllString(name, "%") == verb.ReplaceAllString(key, "%") || document.InFamily(name, key) ||
		strings.TrimRight(name[:first[0]], punctuation) == strings.TrimRight(key, punctuation)
}
