package catalog

import (
	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/finding"
)

// Head is the first YAML document of a catalog's file: enough to tell which Services the catalog is about. The second one is
// read when a Service is.
type Head struct {
	// Name is what users select the catalog by; it is the name of the file, too.
	Name string `json:"name"`
	// Title is what the docs call the cloud.
	Title string `json:"title"`
	// Controller is the repository that was read, Version what of it.
	Controller string `json:"controller"`
	Version    string `json:"version"`
	// Help is a sentence or two for the docs: how the controller reads annotations, and what it does with what it cannot read.
	Help string `json:"help"`
	// Prefixes begin keys that nobody but this controller reads: any other key under them is unknown.
	Prefixes []string `json:"prefixes,omitempty"`
	// SharedPrefixes begin keys that others read, too: there, only what is near to a known key is called unknown.
	SharedPrefixes []string `json:"sharedPrefixes,omitempty"`
	// Elsewhere are keys under the prefixes that are known but say nothing about Services of type LoadBalancer, such as those of
	// Nodes or Ingresses. One * at the end stands for the rest of a key.
	Elsewhere []string `json:"elsewhere,omitempty"`
	// Reads are keys outside the prefixes that the controller reads, too, and that no entry describes.
	Reads []string `json:"reads,omitempty"`
	// Owns are the Services that the controller acts on.
	Owns Ownership `json:"owns"`
	// Own is true if the controller is Quaymaster's own. It applies policies itself, so rules see the values that hold by
	// default, and defaults hold even where admission did not write them. Unknown keys are always errors. On Services that
	// it does not own, its keys have no effect and are not validated.
	Own bool `json:"own,omitempty"`
	// IDPrefix begins the ids of findings; the name and a dash if it is empty.
	IDPrefix string `json:"idPrefix,omitempty"`
	// IDs rename findings that every catalog has, by their usual name.
	IDs map[string]string `json:"ids,omitempty"`
}

// Ownership tells which Services of type LoadBalancer a controller acts on: those with one of the classes, or without class where
// NoClass says so, unless a condition of When, or all of those of Any, are known not to hold: a value that is wrong does not make a
// Service somebody else's. Any condition of Also makes a Service owned whatever its class.
type Ownership struct {
	// Classes are the loadBalancerClasses; one * at the end stands for the rest.
	Classes []string `json:"classes,omitempty"`
	// NoClass is whether Services without loadBalancerClass are owned.
	NoClass bool `json:"noClass,omitempty"`
	// AnyClass is for controllers that do not look at the loadBalancerClass.
	AnyClass bool        `json:"anyClass,omitempty"`
	When     []Condition `json:"when,omitempty"`
	Any      []Condition `json:"any,omitempty"`
	Also     []Condition `json:"also,omitempty"`
	// Note says what a Service does not tell, such as flags of the controller.
	Note string `json:"note,omitempty"`
}

// Body is the second YAML document of a catalog's file.
type Body struct {
	// Empty is what an empty value is where an annotation does not say.
	Empty       annotation.Empty `json:"empty,omitempty"`
	Annotations []Annotation     `json:"annotations"`
	// Checks are about the Service as a whole.
	Checks []Check `json:"checks,omitempty"`
	// Findings document the findings whose ids requirements, checks and changes rename.
	Findings []FindingDoc `json:"findings,omitempty"`
	// Left are facts about the controller that no entry holds.
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

// Annotation is what there is to know about one key, or about a family of keys.
type Annotation struct {
	// Name is the key. {port} in it stands for the number of a port of the Service, {portname} for its name, {portref} for either,
	// {protocol} for tcp, udp or sctp in any case, {index} for a number, and {any} for anything else.
	Name string `json:"name"`
	// Aliases are keys that are read where Name is absent.
	Aliases []string `json:"aliases,omitempty"`
	// AliasesDeprecated says that the controller wants to be rid of them.
	AliasesDeprecated bool `json:"aliasesDeprecated,omitempty"`
	// Also are words by which users of other clouds look for the key. They are not read, but suggest the key.
	Also []string `json:"also,omitempty"`
	// PortForm is true if the key may be followed by a dot and the number or name of a port, to set the value of that port's
	// listener alone. The form for a port wins over the plain key, which governs every other port.
	PortForm bool `json:"portForm,omitempty"`
	// Help is a sentence or two for the docs.
	Help string `json:"help"`
	annotation.Type
	// Variants are the types that the value has on some Services instead: the first one counts whose conditions all hold.
	Variants []Variant `json:"variants,omitempty"`
	// Default is what holds where the key is absent, as a value of the type, if there is one that does not depend on anything.
	Default string `json:"default,omitempty"`
	// Defaults hold instead of Default where the value depends on the Service or port: the first one whose conditions hold.
	Defaults []Default `json:"defaults,omitempty"`
	// DefaultIf are conditions that hold where the default has an effect. Elsewhere the rules of policies ignore it.
	DefaultIf []Condition `json:"defaultIf,omitempty"`
	// NoDefault is true if nothing at all holds without the key, so that setting or removing it is a change like any other.
	NoDefault bool `json:"noDefault,omitempty"`
	// WriteDefault is true if admission writes the default into Services, for their owners to see.
	WriteDefault bool `json:"writeDefault,omitempty"`
	// Single is true if only one Service can have a given value, so that no policy may make it a default.
	Single bool `json:"single,omitempty"`
	// OnInvalid is what the controller does with a value that breaks the type.
	OnInvalid Outcome `json:"onInvalid"`
	// UnknownPort is what happens where the name's port is none of the Service's; ignored if it is not given.
	UnknownPort Outcome `json:"unknownPort,omitempty"`
	// OnChange is what happens where the value changes while there is a load balancer; empty where that is possible.
	OnChange Outcome `json:"onChange,omitempty"`
	// Immutable is true if OnChange holds as soon as the Service is a load balancer, and not only once it has an address.
	Immutable bool `json:"immutable,omitempty"`
	// ChangeID renames the finding of a change.
	ChangeID string `json:"changeID,omitempty"`
	// Severity overrides what OnInvalid says about an invalid value.
	Severity finding.Severity `json:"severity,omitempty"`
	// Consequence tells users what an invalid value leads to, such as "anything else makes the load balancer public".
	Consequence string `json:"consequence,omitempty"`
	// Deprecated says what to use instead.
	Deprecated string `json:"deprecated,omitempty"`
	// Written says that the controller writes the key itself: whatever its value, nobody is refused.
	Written bool `json:"written,omitempty"`
	// ReadIf are conditions that all hold where the controller reads the key. Elsewhere it has no effect, whatever its value: users
	// are warned of that alone.
	ReadIf []Condition `json:"readIf,omitempty"`
	// Requires must hold wherever the key is set.
	Requires []Requirement `json:"requires,omitempty"`
	// Checks are functions that check a valid value.
	Checks []Call `json:"checks,omitempty"`
	// Remedy says what to write in place of an invalid value; made of Valid if it is empty.
	Remedy string `json:"remedy,omitempty"`
	// Source is where the controller's repository or documentation says so.
	Source []string `json:"source"`
	// Valid and Invalid are values: each is tried. Only for a free text no value is invalid.
	Valid   string  `json:"valid"`
	Invalid *string `json:"invalid,omitempty"`
}

// Names are the name and the aliases, in the order in which they are read.
func (a *Annotation) Names() []string { return append([]string{a.Name}, a.Aliases...) }

// Variant is what an annotation is on some Services, for controllers that drive several kinds of load balancers.
type Variant struct {
	// If are conditions about fields of the Service, never about keys.
	If []Condition `json:"if"`
	annotation.Type
	// The rest is as in an Annotation, and in its place.
	OnInvalid   Outcome `json:"onInvalid"`
	OnChange    Outcome `json:"onChange,omitempty"`
	Consequence string  `json:"consequence,omitempty"`
	Valid       string  `json:"valid"`
	Invalid     *string `json:"invalid,omitempty"`
}

// Default is a value that holds under conditions.
type Default struct {
	If    []Condition `json:"if,omitempty"`
	Value string      `json:"value"`
}

// Requirement is about other keys and fields, where an annotation is set. One that mentions fields of ports, or keys with a form
// for ports, is checked for each port that the annotation governs.
type Requirement struct {
	// ID renames the finding.
	ID string `json:"id,omitempty"`
	// SomePort is true if the requirement need hold for one governed port only: elsewhere the annotation does not apply and is
	// skipped. Of several such requirements, all must hold at the same port; the one that fails last is reported.
	SomePort bool `json:"somePort,omitempty"`
	// Values limits the requirement to these values of the annotation, in their normal form.
	Values []string `json:"values,omitempty"`
	// If limits it to Services for which all of these hold.
	If []Condition `json:"if,omitempty"`
	// Any is what must hold: one of them.
	Any []Condition `json:"any"`
	// OnBreach is what happens otherwise.
	OnBreach Outcome `json:"onBreach"`
	// Message completes "must …"; generated from Any if it is empty.
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`

	eachPort bool
}

// Condition is about one key, or about one field of the Service.
type Condition struct {
	// Key is an annotation of the catalog, by its Name. In a requirement of a family of keys, placeholders have the family's values.
	Key string `json:"key,omitempty"`
	// Field is one of those in fields.go, such as spec.loadBalancerIP.
	Field string `json:"field,omitempty"`
	// Set is whether there is a value, without its default.
	Set *bool `json:"set,omitempty"`
	// Is are the values of which one must hold, the default included; of a list one element is enough.
	Is []string `json:"is,omitempty"`
	// Not are values that may not hold, the default included; of a list no element may be one.
	Not []string `json:"not,omitempty"`
	// Only are the values that every element of a list must be one of.
	Only []string `json:"only,omitempty"`
}

// Check is about the Service as a whole.
type Check struct {
	// ID follows the catalog's name and a dash in the ids of findings.
	ID string `json:"id"`
	// Help is a sentence or two for the docs.
	Help string `json:"help"`
	// EachPort is true if the check is made for each port of the Service.
	EachPort bool `json:"eachPort,omitempty"`
	// If are conditions that all hold where the check is made.
	If []Condition `json:"if,omitempty"`
	// Any is what must hold: one of them.
	Any []Condition `json:"any,omitempty"`
	// Call is a function to call instead of Any.
	Call *Call `json:"call,omitempty"`
	// At is the key or field to blame.
	At       string  `json:"at"`
	OnBreach Outcome `json:"onBreach"`
	// Message completes "must …"; generated from Any, or by the function, if it is empty.
	Message string   `json:"message,omitempty"`
	Remedy  string   `json:"remedy"`
	Source  []string `json:"source"`
	// Valid passes the check, Invalid fails it; nothing else is wrong with either.
	Valid   Example `json:"valid"`
	Invalid Example `json:"invalid"`
}

// Example is a Service of type LoadBalancer.
type Example struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	// Spec is merged over a spec with one port, tcp/80 named http.
	Spec map[string]any `json:"spec,omitempty"`
}

// Call is a call of a function of package check.
type Call struct {
	Name string `json:"name"`
	// With are its arguments.
	With map[string]string `json:"with,omitempty"`
	// ID renames the finding.
	ID string `json:"id,omitempty"`
	// OnBreach is what happens where it finds fault; that of an invalid value if it is not given.
	OnBreach Outcome `json:"onBreach,omitempty"`
}

// Left is a fact about the controller that is left out.
type Left struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Outcome is what a controller does with a mistake. It decides whether we refuse or warn.
type Outcome string

// The outcomes.
const (
	// Refused: the controller, or its cloud, fails with an error, and the Service gets no load balancer or keeps an old one.
	Refused Outcome = "refused"
	// Misread: something else holds in silence, and that harms: it opens, exposes, disconnects or deletes.
	Misread Outcome = "misread"
	// Ignored: it has no effect, in silence.
	Ignored Outcome = "ignored"
)

// Severity is that of a mistake with this outcome.
func (o Outcome) Severity() finding.Severity {
	if o == Ignored {
		return finding.Warning
	}
	return finding.Error
}
