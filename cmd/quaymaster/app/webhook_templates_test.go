package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"quaymaster.dev/internal/rules/template"
)

// Templates of users are used in addition to the built-in ones, and mistakes in them are reported.
func TestServiceTemplates(t *testing.T) {
	for text, want := range map[string]string{
		`{"group":"example.com","kind":"Shop","resource":"shops","annotations":"spec.annotations"}`:     "",
		`{"group":"example.com","kind":"Shop","annotations":"metadata.annotations","catalogs":["alb"]}`: "",
		`{"group":"example.com","kind":"Shop"}`:                                                         "--service-template must have a group, a kind and the path of annotations",
		`{"groups":"example.com"}`:                                                                      `unknown field "groups"`,
		`{"group":"a.b","kind":"C","annotations":"d","catalogs":["albb"]}`:                              `unknown catalog "albb"; did you mean "alb"?`,
		`{"group":"a.b","kind":"C","annotations":"d","class":"e[].f"}`:                                  "must have no list in e[].f that is not in d",
	} {
		o, fs := &webhookOptions{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addFlags(fs)
		if err := fs.Parse([]string{"--service-template=" + text}); err != nil {
			t.Fatal(err)
		}
		got := errors.Join(append(o.selectCatalogs(), o.addTemplates()...)...)
		if want == "" && (got != nil || len(o.templates) != len(template.BuiltIn())+1) || want != "" && (got == nil || !strings.Contains(got.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, got, want)
		}
	}
}
