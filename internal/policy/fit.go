package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
)

// fitting leaves out the policies' defaults that bring in errors, such as a certificate for a load balancer without https, and
// no others: that one does not fit says nothing about the rest. Of two that exclude each other that of the policy that comes
// first stays.
func (j Judge) fitting(svc *corev1.Service, given []Given, applicable []*Policy) []Given {
	f := &fit{svc: readable(svc), judge: j}
	f.before = j.clouds(nil, f.svc)
	if f.fits(given) {
		return given
	}
	rank := func(g Given) int { return slices.Index(applicable, g.By) } // -1 is the built-in ones, which always fit
	offered := slices.Clone(given)
	slices.SortStableFunc(offered, func(a, b Given) int { return cmp.Compare(rank(a), rank(b)) })
	f.take(offered)
	for f.again() || f.pair() {
		// What has been taken may have made room for more.
	}
	slices.SortFunc(f.taken, func(a, b Given) int { return cmp.Compare(a.Key, b.Key) })
	return f.taken
}

// fit divides defaults into those that fit a Service together and those that are left over.
type fit struct {
	svc   *corev1.Service
	judge Judge
	// before are the Service's own problems.
	before      []finding.Finding
	taken, left []Given
}

// fits tells whether defaults bring in no error, beside those that are taken.
func (f *fit) fits(more []Given) bool {
	completed := with(f.svc, slices.Concat(f.taken, more))
	return len(finding.Introduced(f.before, f.judge.clouds(nil, completed))) == 0
}

// take takes what fits. Most defaults do, so it tries many at once.
func (f *fit) take(offered []Given) {
	switch half := len(offered) / 2; {
	case len(offered) == 0:
	case f.fits(offered):
		f.taken = append(f.taken, offered...)
	case half == 0:
		f.left = append(f.left, offered...)
	default:
		f.take(offered[:half])
		f.take(offered[half:])
	}
}

// again tries what is left, and tells whether any of it fits now.
func (f *fit) again() bool {
	left := f.left
	f.left = nil
	f.take(left)
	return len(f.left) < len(left)
}

// pair takes the first two of what is left that fit together alone, such as https and its certificate.
func (f *fit) pair() bool {
	for i, one := range f.left {
		for k := i + 1; k < len(f.left); k++ {
			if pair := []Given{one, f.left[k]}; f.fits(pair) {
				f.taken = append(f.taken, pair...)
				f.left = slices.Delete(slices.Delete(f.left, k, k+1), i, i+1)
				return true
			}
		}
	}
	return false
}

// readable is the Service without the keys of the DLB that are not known. They are errors whatever else there is, and to find out
// for each what was meant takes far longer than all the rest.
func readable(svc *corev1.Service) *corev1.Service {
	known := *svc
	known.Annotations = maps.Clone(svc.Annotations)
	maps.DeleteFunc(known.Annotations, func(key, _ string) bool {
		name, ours := strings.CutPrefix(key, loadbalancer.Prefix)
		plain, _, _ := strings.Cut(name, ".")
		_, found := loadbalancer.Lookup(loadbalancer.Prefix + plain)
		return ours && !found
	})
	return &known
}
