// Package brakes defines the record of brakes that the controllers and quayctl share. A brake stops work that could do
// great damage, such as the deletion of Nodes, until the danger is over or an operator resumes it.
//
// All brakes of a cluster are in one ConfigMap, so that a restart or another leader neither releases a brake nor grants
// a second budget.
package brakes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ConfigMap is the name of the ConfigMap, which is in the namespace of the controllers' lease. It must not change.
const ConfigMap = "quaymaster-brakes"

// The names of the brakes, which are stored and which operators type: they must not change.
const (
	NodeDeletions        = "node-deletions"
	MissingLoadBalancers = "missing-load-balancers"
	PoolMembers          = "pool-members"
	Routes               = "routes"
)

// Doc describes a brake.
type Doc struct {
	Name string
	// Stops says what the brake stops.
	Stops string
}

// All returns all brakes, by name.
func All() []Doc {
	return []Doc{
		{MissingLoadBalancers, "the creation of load balancers while many have disappeared from the cloud"},
		{NodeDeletions, "the deletion of Nodes whose machines are gone"},
		{PoolMembers, "the removal of many Nodes at a time from load balancers"},
		{Routes, "the removal of routes to Nodes"},
	}
}

// Switch stops and resumes work by the names of brakes.
type Switch interface {
	// Engaged reports whether the work of a brake must stop, since when and why.
	Engaged(name string) (message string, since time.Time, engaged bool)
	// Engage stops the work, even if it returns an error. It has no effect while an operator has resumed the work.
	Engage(ctx context.Context, name, message string) error
	// Release ends an engagement whose reason is gone.
	Release(ctx context.Context, name string) error
}

// Brake is the record of a brake.
type Brake struct {
	// Engaged is nil while the brake is released.
	Engaged *Engagement `json:"engaged,omitempty"`
	// Spent lists what was done of the work that the brake limits, oldest first.
	Spent []Spending `json:"spent,omitempty"`
}

// Engagement says since when a brake is engaged, and why.
type Engagement struct {
	Since   time.Time `json:"since"`
	Message string    `json:"message"`
}

// Spending is a unit of a budget that was spent.
type Spending struct {
	// Key identifies the work, such as the UID of a Node.
	Key string    `json:"key"`
	At  time.Time `json:"at"`
}

// Read returns a brake of the ConfigMap. A brake without an entry is released.
func Read(cm *corev1.ConfigMap, name string) (Brake, error) {
	var b Brake
	raw := cm.Data[name]
	if raw == "" {
		return b, nil
	}
	if err := json.Unmarshal([]byte(raw), &b); err != nil {
		return Brake{}, fmt.Errorf("the entry of brake %s in ConfigMap %s is invalid; remove it: %w", name, cm.Name, err)
	}
	return b, nil
}

// Encode returns the entry of the brake in the ConfigMap. It is empty if there is nothing to record.
func (b Brake) Encode() (string, error) {
	if b.Engaged == nil && len(b.Spent) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(b)
	return string(raw), err
}

// Within returns what was spent within the window.
func (b *Brake) Within(window time.Duration, now time.Time) []Spending {
	return slices.DeleteFunc(slices.Clone(b.Spent), func(s Spending) bool { return now.Sub(s.At) >= window })
}

// Spend reports whether the work may be done that the key identifies, and if so, counts it: within any window, work
// with at most limit different keys is done. Work that was counted within the window may be done again. force does the
// work beyond the limit.
func (b *Brake) Spend(key string, limit int, window time.Duration, now time.Time, force bool) (ok, counted bool) {
	b.Spent = b.Within(window, now)
	if slices.ContainsFunc(b.Spent, func(s Spending) bool { return s.Key == key }) {
		return true, false
	}
	if len(b.Spent) >= limit && !force {
		return false, false
	}
	b.Spent = append(b.Spent, Spending{Key: key, At: now})
	return true, true
}

// annotationResume is the beginning of the annotation of the ConfigMap by which an operator resumes the work that a
// brake stops, until the time that is its value.
const annotationResume = "quaymaster.dev/resume-"

// AnnotationResume returns the key of the annotation that resumes the work of a brake. Its value is a time in RFC 3339.
func AnnotationResume(name string) string { return annotationResume + name }

// ResumedUntil returns the time until which an operator has resumed the work of a brake; zero if none has.
func ResumedUntil(cm *corev1.ConfigMap, name string) (time.Time, error) {
	value := cm.Annotations[AnnotationResume(name)]
	if value == "" {
		return time.Time{}, nil
	}
	until, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("annotation %s of ConfigMap %s must be a time such as 2026-01-02T15:04:05Z; got %q",
			AnnotationResume(name), cm.Name, value)
	}
	return until, nil
}

// Engaged reports whether the work of a brake must stop, since when and why, according to the ConfigMap. An operator's
// resumption ends an engagement; an invalid entry is one.
func Engaged(cm *corev1.ConfigMap, name string, now time.Time) (message string, since time.Time, engaged bool) {
	if Resumed(cm, name, now) {
		return "", time.Time{}, false
	}
	b, err := Read(cm, name)
	switch {
	case err != nil:
		return err.Error(), time.Time{}, true
	case b.Engaged != nil:
		return b.Engaged.Message, b.Engaged.Since, true
	}
	return "", time.Time{}, false
}

// Resumed reports whether an operator has resumed the work of a brake. An invalid time does not.
func Resumed(cm *corev1.ConfigMap, name string, now time.Time) bool {
	until, err := ResumedUntil(cm, name)
	return err == nil && now.Before(until)
}

// Names returns the names of the brakes in the ConfigMap, in order.
func Names(cm *corev1.ConfigMap) []string {
	var names []string
	for name := range cm.Data {
		names = append(names, name)
	}
	for key := range cm.Annotations {
		if name, ok := strings.CutPrefix(key, annotationResume); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Budget limits how much of something may go within a window: a share of all there is, and always one.
type Budget struct {
	Percent int
	Window  time.Duration
}

// Limit returns how many of all may go, which include those that went within the window.
func (b Budget) Limit(all int) int { return max(1, all*b.Percent/100) }

// Account counts what goes at the expense of a budget, in memory: for work that a restart may begin to count again. What
// must be counted across restarts is in Brake.Spent.
type Account struct {
	Budget

	// spent are the times at which something went, oldest first.
	spent []time.Time
}

// Spend counts n more that go.
func (a *Account) Spend(n int, now time.Time) {
	a.spent = append(a.spent, slices.Repeat([]time.Time{now}, n)...)
}

// Room returns how many of those that are left may go now.
func (a *Account) Room(left int, now time.Time) int {
	a.spent = slices.DeleteFunc(a.spent, func(at time.Time) bool { return now.Sub(at) >= a.Window })
	return max(0, a.Limit(left+len(a.spent))-len(a.spent))
}

// Next returns the time until there is more room than at the last call of Room; 0 if it does not depend on time.
func (a *Account) Next(now time.Time) time.Duration {
	if len(a.spent) == 0 {
		return 0
	}
	return a.spent[0].Add(a.Window).Sub(now)
}
