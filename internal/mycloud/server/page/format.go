package page

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/addresses"
	"quaymaster.dev/internal/mycloud/server/history"
	"quaymaster.dev/internal/visible"
)

// functions are those of templates.
func (p *Page) functions() template.FuncMap {
	return template.FuncMap{
		"asset":  func(name string) string { return p.assets.addresses[name] },
		"link":   link,
		"text":   visible.Text,
		"texts":  func(all []string) string { return visible.Text(strings.Join(all, ", ")) },
		"ago":    func(now, at time.Time) string { return ago(now.Sub(at)) },
		"until":  func(now, at time.Time) string { return span(at.Sub(now)) },
		"time":   func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") },
		"iso":    func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
		"rate":   func(v float32) string { return number(float64(v)) },
		"bits":   func(v float32) string { return bits(float64(v)) },
		"count":  func(n any) string { return count(reflect.ValueOf(n).Convert(reflect.TypeFor[uint64]()).Uint()) },
		"tone":   tone,
		"label":  label,
		"spark":  sparkline,
		"plural": plural,
		"share":  share,
		"dict":   dict,
	}
}

// dict returns the arguments as a map, for templates with several.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("%v is not a name", pairs[i])
		}
		m[key] = pairs[i+1]
	}
	return m, nil
}

// share returns how much of a pool of addresses is in use, in percent.
func share(u addresses.Use) int {
	return min(100, int(math.Ceil(100*float64(u.Assigned+u.Reserved)/max(u.Pool.Size(), 1))))
}

// link returns the address of the page of an object.
func link(kind, id string) string { return Path + kind + "/" + url.PathEscape(id) }

// ago returns how long ago something was.
func ago(d time.Duration) string {
	if d < 2*time.Second {
		return "now"
	}
	return span(d) + " ago"
}

// span returns a time in its largest unit.
func span(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if n := int(d / u.unit); n > 1 || n == 1 && u.unit != time.Minute {
			return plural(n, u.name)
		}
	}
	return fmt.Sprintf("%d s", int(d/time.Second))
}

// plural returns a number with a noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "ss") {
		noun += "e"
	}
	return count(max(n, 0)) + " " + noun + "s"
}

// count returns a number with its thousands apart.
func count[T int | uint64](n T) string {
	text := strconv.FormatUint(uint64(n), 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// number returns a rate with about three digits.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < .01:
		return "<0.01"
	case v < 10:
		return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
	case v < 1000:
		return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	}
	return count(uint64(math.Round(v)))
}

// bits returns bytes per second in bits per second.
func bits(v float64) string {
	v *= 8
	for _, u := range []struct {
		size float64
		name string
	}{{1e9, "Gbit/s"}, {1e6, "Mbit/s"}, {1e3, "kbit/s"}} {
		if v >= u.size {
			return strconv.FormatFloat(v/u.size, 'f', 1, 64) + " " + u.name
		}
	}
	return strconv.FormatFloat(math.Round(v), 'f', -1, 64) + " bit/s"
}

// tone returns how a state is painted: good, warn, bad or plain.
func tone(state any) string {
	switch fmt.Sprint(state) {
	case cloudv1.OperatingOnline, cloudv1.EdgeActive, string(cloudv1.JobSucceeded):
		return "good"
	case cloudv1.OperatingDegraded, cloudv1.OperatingDraining, cloudv1.OperatingNoMembers, string(cloudv1.ProvisioningPendingCreate),
		string(cloudv1.ProvisioningPendingUpdate), string(cloudv1.ProvisioningPendingDelete), string(cloudv1.JobQueued),
		string(cloudv1.JobRunning), "ends soon", "behind":
		return "warn"
	case cloudv1.OperatingOffline, string(cloudv1.ProvisioningError), string(cloudv1.JobFailed), "ended":
		return "bad"
	}
	return "plain"
}

// label returns a state in words.
func label(state any) string { return strings.ReplaceAll(fmt.Sprint(state), "_", " ") }

const (
	// sparkWidth and sparkHeight are the size of a sparkline, and sparkSteps how many steps it has.
	sparkWidth, sparkHeight, sparkSteps = 120, 24, 60
)

// spark is the traffic of the last five minutes as two lines.
type spark struct {
	Accepted, Refused, Label string
	Width, Height            int
}

// sparkline returns the lines of a series.
func sparkline(s history.Series) spark {
	points := s.Points[max(0, len(s.Points)-sparkSteps):]
	var top float64
	var refused bool
	for _, p := range points {
		top = max(top, float64(p.Accepted), float64(p.Refused))
		refused = refused || p.Refused > 0
	}
	now := s.Last(6)
	out := spark{
		Width: sparkWidth, Height: sparkHeight,
		Label: fmt.Sprintf("%s accepted and %s refused per second now; at most %s in the last minutes",
			number(float64(now.Accepted)), number(float64(now.Refused)), number(top)),
	}
	if top == 0 {
		return out
	}
	out.Accepted = polyline(points, top, func(r history.Rates) float32 { return r.Accepted })
	if refused {
		out.Refused = polyline(points, top, func(r history.Rates) float32 { return r.Refused })
	}
	return out
}

func polyline(points []history.Rates, top float64, of func(history.Rates) float32) string {
	var b strings.Builder
	for i, p := range points {
		x := float64(sparkWidth) * float64(i+sparkSteps-len(points)) / (sparkSteps - 1)
		fmt.Fprintf(&b, "%.1f,%.1f ", x, 1+(sparkHeight-2)*(1-float64(of(p))/top))
	}
	return b.String()
}
