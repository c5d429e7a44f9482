package catalog

import (
	"regexp"
	"strings"
)

var behavioursOfOpenStack = map[string]Behaviour{
	"openstack-subnet": {
		Help:  "The text after ~ is a regular expression.",
		Judge: openStackSubnet,
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
