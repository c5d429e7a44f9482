// Package document defines the format of catalogs: YAML files that describe which annotations a controller reads, and
// what it does with a value that it cannot parse.
package document

import (
	"strings"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/finding"
)

// Head is the first YAML document of a catalog's file: enough to decide which Services the catalog applies to. The
// second document is parsed only when it is needed.
type Head struct {
	// Name selects the catalog, and is the name of its file.
	Name string `json:"name"`
	// Title names the cloud in docs and messages.
	Title string `json:"title"`
	// Controller is the repository that the catalog describes, Version the release or commit of it.
	Controller string `json:"controller"`
	Version    string `json:"version"`
	// Date is the day of that version, or on which it was read, such as 2026-08-19; empty for Quaymaster's own
	// controller.
	Date string `json:"date,omitempty"`
	// Help is a sentence or two for the docs: how the controller parses annotations, and how it handles invalid ones.
	Help string `json:"help"`
	// Kinds are those of the objects that have the annotations; the default is Services of type LoadBalancer.
	Kinds []string `json:"kinds,omitempty"`
	// Prefixes begin keys that only this controller reads: any other key under them is unknown.
	Prefixes []string `json:"prefixes,omitempty"`
	// SharedPrefixes begin keys that others also read: only a probable typo of a known key is reported as unknown.
	SharedPrefixes []string `json:"sharedPrefixes,omitempty"`
	// Elsewhere are known keys under the prefixes that have no effect on Services of type LoadBalancer, such as those
	// of Nodes or Ingresses. One * at the end stands for the rest of a key.
	Elsewhere []string `json:"elsewhere,omitempty"`
	// OnServices are keys, as in Elsewhere, that the controller of objects of other kinds also reads on their Services.
	OnServices []string `json:"onServices,omitempty"`
	// AnyType are keys, as in Elsewhere, that the controller also reads on Services of other types than LoadBalancer.
	AnyType []string `json:"anyType,omitempty"`
	// Reads are keys outside the prefixes that the controller also reads, and that no entry describes.
	Reads []string `json:"reads,omitempty"`
	// Owns describes the Services that the controller acts on.
	Owns Ownership `json:"owns"`
	// Own is true if the controller is Quaymaster's own. It applies policies itself, so rules validate default values,
	// too, and defaults apply even if admission did not write them. Unknown keys are always errors. On Services that it
	// does not own, its keys have no effect and are not validated.
	Own bool `json:"own,omitempty"`
	// IDPrefix begins the ids of findings; the default is the name and a dash.
	IDPrefix string `json:"idPrefix,omitempty"`
	// IDs renames findings that every catalog has, by their usual name.
	IDs map[string]string `json:"ids,omitempty"`
}

// Ownership describes which Services of type LoadBalancer a controller acts on: those with one of the classes, or
// without a class if NoClass is true, unless a condition of When, or every condition of Any, is known not to hold: an
// invalid value does not make a Service another controller's. If a condition of Also holds, the Service is owned
// regardless of its class.
type Ownership struct {
	// Classes are the loadBalancerClasses; one * at the end stands for the rest. With AnyClass, they are those of Ingresses by
	// which the controller is recognized.
	Classes []string `json:"classes,omitempty"`
	// NoClass is true if the controller acts on Services without loadBalancerClass.
	NoClass bool `json:"noClass,omitempty"`
	// AnyClass is true if the controller ignores the loadBalancerClass.
	AnyClass bool        `json:"anyClass,omitempty"`
	When     []Condition `json:"when,omitempty"`
	Any      []Condition `json:"any,omitempty"`
	Also     []Condition `json:"also,omitempty"`
	// Note describes what a Service does not show, such as flags of the controller.
	Note string `json:"note,omitempty"`
}

// Body is the second YAML document of a catalog's file.
type Body struct {
	// Empty is the default for annotations that do not set it.
	Empty       annotation.Empty `json:"empty,omitempty"`
	Annotations []Annotation     `json:"annotations"`
	// Checks validate the Service as a whole.
	Checks []Check `json:"checks,omitempty"`
	// Findings documents the findings whose ids requirements, checks and changes rename.
	Findings []FindingDoc `json:"findings,omitempty"`
	// Left lists facts about the controller that the catalog leaves out.
	Left []Left `json:"left,omitempty"`
}

// FindingDoc documents a finding.
type FindingDoc struct {
	ID   string `json:"id"`
	Help string `json:"help"`
}

// Document is a whole catalog.
type Document struct {
	Head
	Body
}

// Annotation describes one key, or a family of keys.
type Annotation struct {
	// Name is the key. {port} in it stands for the number of a port of the Service, {portname} for its name, {portref}
	// for either, {protocol} for tcp, udp or sctp in any case, {index} for a number, and {any} for anything else.
	Name string `json:"name"`
	// Aliases are keys that the controller reads if Name is absent.
	Aliases []string `json:"aliases,omitempty"`
	// AliasesDeprecated is true if the controller will drop the aliases.
	AliasesDeprecated bool `json:"aliasesDeprecated,omitempty"`
	// Also are names of the key on other clouds. They are not read; the key is suggested instead.
	Also []string `json:"also,omitempty"`
	// PortForm is true if the key may be followed by a dot and the number or name of a port, to set the value of only
	// that port's listener. The form for a port takes precedence over the plain key, which governs every other port.
	PortForm bool `json:"portForm,omitempty"`
	// Help is a sentence or two for the docs.
	Help string `json:"help"`
	annotation.Type
	// Variants are types that replace the type on some Services. The first variant whose conditions all hold applies.
	Variants []Variant `json:"variants,omitempty"`
	// Default is the value of an absent key, if it does not depend on anything.
	Default string `json:"default,omitempty"`
	// Defaults replaces Default if the value depends on the Service or port. The first one whose conditions hold
	// applies.
	Defaults []Default `json:"defaults,omitempty"`
	// DefaultIf are the conditions under which the default has an effect. Otherwise the rules of policies ignore it.
	DefaultIf []Condition `json:"defaultIf,omitempty"`
	// NoDefault is true if an absent key means no value at all, so that adding or removing it is a change like any
	// other.
	NoDefault bool `json:"noDefault,omitempty"`
	// WriteDefault is true if admission writes the default into Services, for their owners to see.
	WriteDefault bool `json:"writeDefault,omitempty"`
	// Single is true if only one Service can have a given value, so that no policy may make it a default.
	Single bool `json:"single,omitempty"`
	// OnInvalid is what the controller does with an invalid value.
	OnInvalid Outcome `json:"onInvalid"`
	// UnknownPort is what it does if the Service does not have the port in the key; the default is Ignored.
	UnknownPort Outcome `json:"unknownPort,omitempty"`
	// OnChange is what it does if the value changes while there is a load balancer; empty if the change is possible.
	OnChange Outcome `json:"onChange,omitempty"`
	// Immutable is true if OnChange applies as soon as the Service is a load balancer, and not only once it has an
	// address.
	Immutable bool `json:"immutable,omitempty"`
	// ChangeID renames the finding of a change.
	ChangeID string `json:"changeID,omitempty"`
	// Severity overrides the severity of OnInvalid.
	Severity finding.Severity `json:"severity,omitempty"`
	// Consequence describes the effect of an invalid value, such as "anything else makes the load balancer public".
	Consequence string `json:"consequence,omitempty"`
	// Deprecated describes what to use instead.
	Deprecated string `json:"deprecated,omitempty"`
	// Since is the first version of the controller that reads the key, such as v1.39.0; empty if that is not known.
	Since string `json:"since,omitempty"`
	// Until is the first version of the controller that no longer reads the key; empty if there is none.
	Until string `json:"until,omitempty"`
	// Written is true if the controller writes the key itself: no value is refused.
	Written bool `json:"written,omitempty"`
	// ReadOnly is true if the controller writes the key, and ignores what users set.
	ReadOnly bool `json:"readOnly,omitempty"`
	// ReadIf are the conditions that must all hold for the controller to read the key. Otherwise, the key has no
	// effect, and its value is not validated: the only finding is a warning about that.
	ReadIf []Condition `json:"readIf,omitempty"`
	// Requires must hold if the key is set.
	Requires []Requirement `json:"requires,omitempty"`
	// Checks are functions that check a valid value.
	Checks []Call `json:"checks,omitempty"`
	// Remedy is the remedy for an invalid value; generated from Valid if it is empty.
	Remedy string `json:"remedy,omitempty"`
	// Source are the places in the controller's repository or documentation that the entry is based on.
	Source []string `json:"source"`
	// Valid and Invalid are example values, which tests try. Invalid is nil only if the type accepts every text.
	Valid   string  `json:"valid"`
	Invalid *string `json:"invalid,omitempty"`
}

// WrittenByController reports whether the controller writes the key.
func (a *Annotation) WrittenByController() bool { return a.Written || a.ReadOnly }

// Family reports whether the annotation describes more than one key: its name has placeholders.
func (a *Annotation) Family() bool { return strings.Contains(a.Name, "{") }

// Names returns the name and the aliases, in order of precedence.
func (a *Annotation) Names() []string { return append([]string{a.Name}, a.Aliases...) }

// Variant changes an annotation on some Services, for controllers that manage several kinds of load balancers.
type Variant struct {
	// If are conditions about fields of the Service, never about keys.
	If []Condition `json:"if"`
	annotation.Type
	// The other fields replace those of the Annotation.
	OnInvalid   Outcome `json:"onInvalid"`
	OnChange    Outcome `json:"onChange,omitempty"`
	Consequence string  `json:"consequence,omitempty"`
	Valid       string  `json:"valid"`
	Invalid     *string `json:"invalid,omitempty"`
}

// Default is a default value that applies under conditions.
type Default struct {
	If    []Condition `json:"if,omitempty"`
	Value string      `json:"value"`
}

// Requirement limits the combination of an annotation with other keys and fields. If it mentions fields of ports, or
// keys with a form for ports, it is checked for each port that the annotation governs.
type Requirement struct {
	// ID renames the finding.
	ID string `json:"id,omitempty"`
	// SomePort is true if the requirement must hold for at least one governed port: the annotation has no effect on
	// other ports and is skipped there. Several such requirements must hold at the same port; the one that fails last
	// is reported.
	SomePort bool `json:"somePort,omitempty"`
	// Values limits the requirement to these values of the annotation, in their normalized form.
	Values []string `json:"values,omitempty"`
	// If limits the requirement to Services for which all of these conditions hold.
	If []Condition `json:"if,omitempty"`
	// Any are conditions of which one must hold.
	Any []Condition `json:"any"`
	// OnBreach is what the controller does otherwise.
	OnBreach Outcome `json:"onBreach"`
	// Unread is true if the controller does not even read the annotation otherwise, so that its value is not validated.
	// ReadIf says the same with conditions that must all hold.
	Unread bool `json:"unread,omitempty"`
	// Message completes "must …"; generated from Any if it is empty.
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// Condition tests one key, or one field of the Service.
type Condition struct {
	// Key is the Name of an annotation of the catalog. In a requirement of a family of keys, placeholders have the
	// values of the key that is validated.
	Key string `json:"key,omitempty"`
	// Field is one of the fields in package spec, such as spec.loadBalancerIP. In a catalog of objects of other kinds, it is
	// one of the fields of their template, such as spec.tls[].secretName.
	Field string `json:"field,omitempty"`
	// Set tests whether the value is set; a default does not count.
	Set *bool `json:"set,omitempty"`
	// Is requires that the value, or the default, is one of these; of a list, at least one element. With a field, they may
	// have placeholders of the key.
	Is []string `json:"is,omitempty"`
	// Not requires that neither the value nor the default is one of these; of a list, no element.
	Not []string `json:"not,omitempty"`
	// Only requires that every element of a list is one of these.
	Only []string `json:"only,omitempty"`
}

// Check validates the Service as a whole.
type Check struct {
	// ID follows the catalog's IDPrefix in the ids of findings.
	ID string `json:"id"`
	// Help is a sentence or two for the docs.
	Help string `json:"help"`
	// EachPort is true if the check runs for each port of the Service.
	EachPort bool `json:"eachPort,omitempty"`
	// If limits the check to Services or ports for which all of these conditions hold.
	If []Condition `json:"if,omitempty"`
	// Any are conditions of which one must hold.
	Any []Condition `json:"any,omitempty"`
	// Call names a function to call instead of Any.
	Call *Call `json:"call,omitempty"`
	// At is the key or field that findings point to.
	At       string  `json:"at"`
	OnBreach Outcome `json:"onBreach"`
	// Message completes "must …"; generated from Any, or by the function, if it is empty.
	Message string   `json:"message,omitempty"`
	Remedy  string   `json:"remedy"`
	Source  []string `json:"source"`
	// Valid passes the check and Invalid fails it. Neither has other findings.
	Valid   Example `json:"valid"`
	Invalid Example `json:"invalid"`
}

// Example is a Service of type LoadBalancer.
type Example struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	// Spec is merged into a spec with one port, tcp/80 named http.
	Spec map[string]any `json:"spec,omitempty"`
}

// Call is a call of a function of package check.
type Call struct {
	Name string `json:"name"`
	// With holds its arguments.
	With map[string]string `json:"with,omitempty"`
	// ID renames the finding.
	ID string `json:"id,omitempty"`
	// OnBreach is what the controller does if the function reports a problem; the default is OnInvalid.
	OnBreach Outcome `json:"onBreach,omitempty"`
	// Unread is true if the function judges the key, and the controller does not read the annotation if it reports a
	// problem, so that the value is not validated.
	Unread bool `json:"unread,omitempty"`
}

// Left is a fact about the controller that the catalog leaves out, with the reason.
type Left struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Outcome is what a controller does with a mistake. It decides between an error and a warning.
type Outcome string

// The outcomes.
const (
	// Refused: the controller, or its cloud, fails with an error, and the Service gets no load balancer or keeps an old
	// one.
	Refused Outcome = "refused"
	// Misread: the controller silently does something else that harms: it opens, exposes, disconnects or deletes.
	Misread Outcome = "misread"
	// Ignored: the mistake silently has no effect.
	Ignored Outcome = "ignored"
)

// Severity returns the severity of a mistake with this outcome.
func (o Outcome) Severity() finding.Severity {
	if o == Ignored {
		return finding.Warning
	}
	return finding.Error
}
