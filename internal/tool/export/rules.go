package export

import (
	"fmt"
	"regexp"
	"strings"

	"quaymaster.dev/internal/tool/export/cel"
)

// ruleExpression converts a rule in go-playground/validator's language to an expression. text is the expression for the
// value, size the one that min and max limit.
func ruleExpression(rule, text, size string) (string, error) {
	all := "true"
	for tag := range strings.SplitSeq(rule, ",") {
		name, param, _ := strings.Cut(tag, "=")
		var one string
		switch name {
		case "", "omitempty", "required":
			continue
		case "min", "gte":
			one = size + " >= " + literal(size, param)
		case "max", "lte":
			one = size + " <= " + literal(size, param)
		case "gt":
			one = size + " > " + literal(size, param)
		case "lt":
			one = size + " < " + literal(size, param)
		case "len":
			one = size + " == " + param
		case "oneof":
			one = cel.In(text, strings.Fields(param))
		case "ip":
			one = "isIP(" + text + ")"
		case "ipv4", "ipv6":
			one = cel.And("isIP("+text+")", "ip("+text+").family() == "+strings.TrimPrefix(name, "ipv"))
		case "cidr":
			one = "isCIDR(" + text + ")"
		case "cidrv4", "cidrv6":
			one = cel.And("isCIDR("+text+")", "cidr("+text+").ip().family() == "+strings.TrimPrefix(name, "cidrv"))
		case "startswith":
			one = text + ".startsWith(" + cel.Quote(param) + ")"
		case "endswith":
			one = text + ".endsWith(" + cel.Quote(param) + ")"
		case "contains":
			one = text + ".contains(" + cel.Quote(param) + ")"
		case "numeric":
			one = cel.Matches(text, `[-+]?[0-9]+(\.[0-9]+)?`)
		case "lowercase":
			one = text + ".lowerAscii() == " + text
		case "alphanum":
			one = cel.Matches(text, `[a-zA-Z0-9]+`)
		case "ascii":
			one = cel.Matches(text, `[\x00-\x7F]*`)
		case "dnslabel":
			one = "!format.dns1123Label().validate(" + text + ").hasValue()"
		case "dnsname":
			// An IPv6 address is never a DNS name. Unlike isIP, the API server accepts 192.168.010.001 as an address.
			one = cel.And("!format.dns1123Subdomain().validate("+text+").hasValue()",
				"!"+cel.Matches(text, `[0-9]+(\.[0-9]+){3}`))
		case "prefixed":
			words := strings.Fields(param)
			one = cel.Matches(text, regexp.QuoteMeta(words[0])+"[a-z0-9-]{"+words[1]+","+words[2]+"}")
		case "urlpath":
			one = cel.Matches(text, `/[!-"$-~]{0,254}`)
		case "uuid", "uuid4":
			one = cel.Matches(text, `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
		default:
			return "", unsupported("there is no expression for the rule " + name)
		}
		all = cel.And(all, one)
	}
	return all, nil
}

// literal returns a bound in the type of the number that it is compared with.
func literal(size, bound string) string {
	if strings.HasPrefix(size, "double(") {
		return "double('" + bound + "')"
	}
	return bound
}

func durationRule(rule, parsed string) (string, error) {
	all := "true"
	for tag := range strings.SplitSeq(rule, ",") {
		name, param, _ := strings.Cut(tag, "=")
		switch name {
		case "":
		case "min", "gte":
			all = cel.And(all, fmt.Sprintf("%s >= duration(%s)", parsed, cel.Quote(param)))
		case "max", "lte":
			all = cel.And(all, fmt.Sprintf("%s <= duration(%s)", parsed, cel.Quote(param)))
		case "wholesecs":
			all = cel.And(all, parsed+".getMilliseconds() % 1000 == 0")
		default:
			return "", unsupported("there is no expression for the rule " + name + " of a duration")
		}
	}
	return all, nil
}

// maxCompared is the number of elements of a list up to which they are compared with each other.
const maxCompared = "100"

// listRule converts the rule of a list. Tags before dive validate the list, those after it each element.
func listRule(rule, elements string) (string, error) {
	of, each, dives := strings.Cut(rule, "dive")
	all := "true"
	for tag := range strings.SplitSeq(strings.TrimSuffix(of, ","), ",") {
		if tag == "unique" {
			// CEL compares every two elements. Beyond maxCompared, the API server would stop after 0.1 seconds and ignore it.
			all = cel.And(all, "(size("+elements+") > "+maxCompared+" || "+
				elements+".all(e, "+elements+".exists_one(f, f == e)))")
			continue
		}
		one, err := ruleExpression(tag, "", "size("+elements+")")
		if err != nil {
			return "", err
		}
		all = cel.And(all, one)
	}
	if !dives {
		return all, nil
	}
	one, err := ruleExpression(strings.TrimPrefix(each, ","), "e", "size(e)")
	return cel.And(all, elements+".all(e, "+one+")"), err
}
