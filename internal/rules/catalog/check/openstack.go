package check

import (
	"regexp"
	"strings"
)

var openStackFuncs = map[string]Func{
	"openstack-subnet": {
		Help:  "The text after ~ is a regular expression.",
		Check: openStackSubnet,
	},
}

func openStackSubnet(s Subject) string {
	expression, found := strings.CutPrefix(strings.TrimPrefix(s.Value.Text, "!"), "~")
	if !found {
		return ""
	}
	if _, err := regexp.Compile(expression); err != nil {
		return "have a valid regular expression after ~: " + err.Error()
	}
	return ""
}
