package haproxy

import (
	"context"
	"errors"
	"reflect"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// verdict describes what HAProxy refuses of a configuration. Finding out takes long if it refuses something, and the
// same question comes with each change of a member.
type verdict struct {
	structure string
	refused   map[string]error
}

// checked returns the plan without the units that HAProxy refuses, which become faults and stay as they were, if that is
// possible.
func (e *Engine) checked(
	ctx context.Context, p *plan, r *rendered, c *installed, runs string,
) (*plan, *rendered, error) {
	occupied := e.occupied(ctx, runs)
	if e.verdict.structure != r.structure || c.changed {
		refused := map[string]error{}
		if err := e.isolate(ctx, e.units, c, refused); err != nil {
			return nil, nil, err
		}
		e.verdict = verdict{r.structure, refused}
	}
	if len(occupied) == 0 && len(e.verdict.refused) == 0 {
		return p, r, nil
	}
	var faults []cloudv1.EdgeFault
	var rest, without []unit
	for _, u := range e.units {
		err := errors.Join(occupied[u.key()], e.verdict.refused[u.key()])
		if err == nil {
			rest, without = append(rest, u), append(without, u)
			continue
		}
		faults = append(faults, u.fault(err))
		if old, ok := e.accepted[u.key()]; ok && !reflect.DeepEqual(old, u) {
			rest = append(rest, u.before(old))
		}
	}
	p, r, err := e.plans(rest, c)
	if err == nil && len(rest) > len(without) && e.check(ctx, r) != nil {
		p, r, err = e.plans(without, c)
	}
	if err != nil {
		return nil, nil, err
	}
	p.faults = append(p.faults, faults...)
	return p, r, nil
}

func (e *Engine) plans(units []unit, c *installed) (*plan, *rendered, error) {
	p := planOf(units, c.file, e.accepted)
	r, err := render(p, e.Dir, e.User, connectionsFor(e.files, p))
	return p, r, err
}

// isolate finds the units that HAProxy refuses, by halves: it seldom happens, and checking each of a thousand listeners
// takes long.
func (e *Engine) isolate(ctx context.Context, units []unit, c *installed, refused map[string]error) error {
	_, r, err := e.plans(units, c)
	if err == nil {
		err = e.check(ctx, r)
	}
	var invalid *invalidError
	if err == nil || !errors.As(err, &invalid) || len(units) == 0 {
		return err
	}
	if len(units) == 1 {
		refused[units[0].key()] = errors.New(strings.TrimSpace(err.Error()))
		return nil
	}
	half := len(units) / 2
	if err := e.isolate(ctx, units[:half], c, refused); err != nil {
		return err
	}
	return e.isolate(ctx, units[half:], c, refused)
}
