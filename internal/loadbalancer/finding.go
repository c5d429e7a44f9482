package loadbalancer

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/finding"
)

// The ids of the findings. Docs, metrics and users' suppressions refer to them: they must not change.
const (
	idUnknownKey        = "dlb-unknown-key"
	idInvalidValue      = "dlb-invalid-value"
	idPortForm          = "dlb-port-form"
	idUnknownPort       = "dlb-unknown-port"
	idAmbiguousPort     = "dlb-ambiguous-port"
	idProtocolMismatch  = "dlb-protocol-mismatch"
	idNotApplicable     = "dlb-not-applicable"
	idFixedCheck        = "dlb-fixed-health-check"
	idCertificate       = "dlb-certificate-required"
	idCheckTimeout      = "dlb-health-check-timeout"
	idHostnameIPMode    = "dlb-hostname-with-ip-mode"
	idSchedulerAffinity = "dlb-scheduler-with-affinity"
	idSCTP              = "dlb-sctp"
	idNodePort          = "dlb-node-port-required"
	idSourceRange       = "dlb-source-range"
	idImmutable         = "dlb-immutable"
	idAdoptIDInUse      = "dlb-load-balancer-id-in-use"

	// Warnings.
	idOtherClass   = "dlb-other-class"
	idSourceFamily = "dlb-source-range-family"
	idAddress      = "dlb-load-balancer-ip"
	idIPModeVIP    = "dlb-ip-mode-vip"
)

// mostNearest bounds the search for what was meant: an object with more unknown keys than that was not mistyped.
const mostNearest = 20

// unknownKey names the key that was probably meant.
func (s *settings) unknownKey(key, raw string) finding.Finding {
	f := finding.Finding{
		ID: idUnknownKey, Type: field.ErrorTypeInvalid, Field: annotations.Key(key).String(), Value: raw,
		Message: "the key must be a known one under " + Prefix, Remedy: "rename the key or remove it",
	}
	if s.unknown++; s.unknown <= mostNearest {
		nearest, proposal := s.nearestKey(key)
		s.doubtful[nearest.Name] = true
		f.Message += "; the nearest is " + proposal
	}
	return f
}

// nearestKey finds it also where a dot and a dash were mistaken for each other. The proposal has the port, if there is one.
func (s *settings) nearestKey(key string) (nearest *annotation.Descriptor, proposal string) {
	written := strings.TrimPrefix(key, Prefix)
	name, suffix, _ := strings.Cut(written, ".")
	readings := [][2]string{{name, suffix}, {strings.ReplaceAll(written, ".", "-"), ""}}
	if at := strings.LastIndex(name, "-"); at > 0 {
		readings = append(readings, [2]string{name[:at], name[at+1:]})
	}
	least := 0
	for _, reading := range readings {
		ports, _ := s.resolve(reading[1])
		candidate, slips := annotation.Nearest(reading[0], known().candidates)
		d := known().meant[candidate]
		if reading[1] != "" && (len(ports) == 0 || !d.PortForm) {
			slips += len(reading[1])
		}
		if nearest != nil && slips >= least {
			continue
		}
		nearest, proposal, least = d, d.Key, slips
		if d.PortForm && len(ports) > 0 {
			proposal += "." + reading[1]
		}
	}
	return nearest, proposal
}

func invalidValue(one *setting, err error) finding.Finding {
	f := finding.Finding{
		ID: idInvalidValue, Type: field.ErrorTypeInvalid, Field: one.field(), Value: one.raw,
		Message: "must be " + one.Allowed(),
		Remedy:  "write for example " + one.Example,
	}
	if words := one.Words(); words != nil {
		f.Type = field.ErrorTypeNotSupported
		f.Remedy = "write one of these words"
		// A guess from afar could turn a private load balancer into a public one.
		if nearest, slips := annotation.Nearest(one.raw, words); annotation.Near(one.raw, slips) {
			f.Remedy = "the nearest is " + nearest
		}
	}
	if text := err.Error(); text != "" {
		f.Message += ": " + text
	}
	return f
}

func unknownPort(s *settings, one *setting) finding.Finding {
	f := finding.Finding{
		ID: idUnknownPort, Type: field.ErrorTypeInvalid, Field: one.field(), Value: one.raw,
		Message: fmt.Sprintf("the key's suffix %q must be the number or the name of a port of the Service", one.suffix),
		Remedy:  "its ports are " + s.portNames(),
	}
	if !one.named && len(one.suffix) > 1 && one.suffix[0] == '0' {
		f.Message += ", without leading zero"
	}
	return f
}

// portNames lists what a suffix may be.
func (s *settings) portNames() string {
	const most = 10
	var names []string
	for i, l := range s.listeners {
		if i == most {
			return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), len(s.listeners)-most)
		}
		text := l.number()
		if l.name != "" {
			text += " (" + l.name + ")"
		}
		if !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// ambiguous blames the name form: the number form may govern other ports rightly.
func ambiguous(own []*setting, l port) finding.Finding {
	byName, byNumber := own[0], own[1]
	if byNumber.named {
		byName, byNumber = byNumber, byName
	}
	return finding.Finding{
		ID: idAmbiguousPort, Type: field.ErrorTypeInvalid, Field: byName.field(), Value: byName.raw,
		Message:   "a listener must be set by its port's number or by its name, not by both; " + byNumber.key + " sets it, too",
		Remedy:    "remove one of the two",
		Listeners: []string{l.key()},
	}
}
