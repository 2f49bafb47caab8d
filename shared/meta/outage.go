package meta

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// unavailable is what a failed call to etcd becomes where there is no time to look who is silent.
func unavailable(doing string, err error) error {
	what := "the coordinators did not answer in time"
	if said := answered(err); said != "" {
		what = said
	}
	return mqerr.New(mqerr.MetadataUnavailable, "%s: %w", doing, &mqerr.Worded{Text: what, Cause: err})
}

// failed is what a failed call to etcd becomes that began at a time: it says which coordinators are silent.
func (s *Store) failed(doing string, began time.Time, err error) error {
	waited := time.Since(began)
	what := answered(err)
	if what == "" {
		what = s.silence(waited)
	}
	return mqerr.New(mqerr.MetadataUnavailable, "%s: %w", doing, &mqerr.Worded{Text: what, Cause: err})
}

// answered is what a coordinator said that answered, or that the caller gave up; "" if the failure is that nobody did, or that those who did
// are no majority.
func answered(err error) string {
	var etcd rpctypes.EtcdError
	code := status.Code(err)
	if errors.As(err, &etcd) {
		code = etcd.Code()
	}
	switch {
	case errors.Is(err, context.Canceled), code == codes.Canceled:
		return "the call was given up"
	case errors.Is(err, context.DeadlineExceeded), code == codes.DeadlineExceeded, code == codes.Unavailable:
		return ""
	case errors.Is(err, rpctypes.ErrNoSpace):
		return "the coordinators have no room left for metadata"
	case errors.As(err, &etcd):
		return "the coordinators refuse it: " + strings.TrimPrefix(etcd.Error(), "etcdserver: ")
	}
	return ""
}

const (
	// lookTimeout is how long each coordinator has to show that it answers, lookAgain how long what was found is told.
	lookTimeout = 500 * time.Millisecond
	lookAgain   = time.Second
)

// looked is what the last look at the coordinators found. Calls that fail together share one.
type looked struct {
	mu     sync.Mutex
	at     time.Time
	silent []string // addresses, in the order of the endpoints
}

// silence says which coordinators do not answer, to a caller that has waited.
func (s *Store) silence(waited time.Duration) string {
	all := s.c.Endpoints()
	if len(all) == 0 { // a coordinator's own, in its process
		return fmt.Sprintf("this coordinator has no majority, or its disk is slow%s", within(waited))
	}
	silent := s.silent(all)
	switch list := strings.Join(silent, ", "); len(silent) {
	case 0:
		return fmt.Sprintf("no coordinator answered%s (%s); all of them do now", within(waited), strings.Join(all, ", "))
	case len(all):
		return fmt.Sprintf("no coordinator answered%s (%s)", within(waited), list)
	default:
		return fmt.Sprintf("%d of %d coordinators are silent (%s), and the others gave no answer%s", len(silent), len(all), list, within(waited))
	}
}

// keyName is the name of what a key holds: "topic orders".
func keyName(key string) string {
	for _, kind := range []struct{ prefix, word string }{{prefixTopics, "topic "}, {prefixGroups, "group "}, {prefixWebhooks, "webhook "}, {prefixMembers, "member "},
		{prefixNodes, "log node "}, {prefixGateways, "gateway "}, {prefixCoordinators, "coordinator "}} {
		if strings.HasPrefix(key, kind.prefix) {
			return kind.word + key[strings.LastIndexByte(key, '/')+1:]
		}
	}
	return key
}

// within is " within 5 s"; "" for what failed at once.
func within(waited time.Duration) string {
	if waited < 100*time.Millisecond {
		return ""
	}
	return fmt.Sprintf(" within %.2g s", waited.Seconds())
}

// silent are those that do not answer a question that each answers by itself, without a majority.
func (s *Store) silent(all []string) []string {
	s.looked.mu.Lock()
	defer s.looked.mu.Unlock()
	if !s.looked.at.IsZero() && time.Since(s.looked.at) < lookAgain {
		return s.looked.silent
	}
	ctx, cancel := context.WithTimeout(s.c.Ctx(), lookTimeout) // the caller's own time may be up
	defer cancel()
	answers := make([]bool, len(all))
	var asked sync.WaitGroup
	for i, endpoint := range all {
		asked.Go(func() {
			_, err := s.c.Status(ctx, endpoint)
			answers[i] = err == nil
		})
	}
	asked.Wait()
	s.looked.silent = nil
	for i, endpoint := range all {
		if !answers[i] {
			s.looked.silent = append(s.looked.silent, endpoint)
		}
	}
	s.looked.at = time.Now()
	return s.looked.silent
}
