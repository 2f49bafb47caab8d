package meta

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Member is a consumer that joined an assigned group, under /members/<group id>/<name>. The key is under a lease of
// the member's own, so that any gateway can renew it and none need live for it.
type Member struct {
	Name   string      `json:"name"` // unique in the group: who joins under it again takes it over
	Group  mq.GroupID  `json:"group"`
	Zone   string      `json:"zone,omitempty"`
	TTL    mq.Duration `json:"ttl"` // whole seconds; the member is gone when nobody renewed it for so long
	Joined time.Time   `json:"joined"`
	// Lease is etcd's lease of the key.
	Lease int64 `json:"lease"`
	// Revision is the key's ModRevision when this value was read; not stored.
	Revision int64 `json:"-"`
}

func membersPrefix(g mq.GroupID) string { return fmt.Sprintf("%s%d/", prefixMembers, g) }

func memberKey(g mq.GroupID, name string) string { return membersPrefix(g) + name }

func assignmentKey(g mq.GroupID) string {
	return prefixAssignments + strconv.FormatUint(uint64(g), 10)
}

// JoinMember enters a member of an assigned group under a new lease, or takes over the one of that name. Name, zone and
// ttl must be checked by the caller. ValidationFailed if the group has its most members.
func (s *Store) JoinMember(ctx context.Context, m Member) (Member, error) {
	if err := s.roomForMember(ctx, m); err != nil {
		return Member{}, err
	}
	grant, err := s.grant(ctx, time.Duration(m.TTL))
	if err != nil {
		return Member{}, err
	}
	m.Lease, m.Joined = int64(grant), time.Now().UTC()
	key := memberKey(m.Group, m.Name)
	value, err := encode(m)
	if err != nil {
		return Member{}, err
	}
	for range maxSwaps {
		var have Member
		revision, err := s.get(ctx, key, &have)
		if err != nil {
			break
		}
		if revision != 0 && have.Lease == m.Lease {
			m.Revision = revision
			return m, nil // an earlier try of unknown outcome was carried out
		}
		ok, at, err := s.commit(ctx, "entering member "+m.Name, []clientv3.Cmp{unchanged(key, revision)},
			clientv3.OpPut(key, value, clientv3.WithLease(grant)))
		if ok {
			if m.Revision = at; revision != 0 {
				s.revoke(clientv3.LeaseID(have.Lease)) // it holds no key any more
			}
			return m, nil
		}
		if err != nil && ctx.Err() != nil {
			break
		}
	}
	s.revoke(grant)
	return Member{}, mqerr.New(mqerr.MetadataUnavailable, "entering member %q: no try came through", m.Name)
}

// roomForMember counts who is there; one of them who joins again needs no room. Two who join at the bound at once may
// both find room, which does no harm.
func (s *Store) roomForMember(ctx context.Context, m Member) error {
	r, err := s.read(ctx, "counting members", membersPrefix(m.Group), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if r.Count < mq.MaxMembers {
		return nil
	}
	if revision, err := s.get(ctx, memberKey(m.Group, m.Name), &Member{}); err != nil || revision != 0 {
		return err
	}
	return mqerr.New(mqerr.ValidationFailed, "the group has %d members, which is the most", r.Count)
}

func (s *Store) grant(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	g, err := s.c.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return 0, s.failed("taking a lease", began, err)
	}
	return g.ID, nil
}

// GetMember reads a member linearizably: NotMember if there is none.
func (s *Store) GetMember(ctx context.Context, group mq.GroupID, name string) (Member, error) {
	var m Member
	revision, err := s.get(ctx, memberKey(group, name), &m)
	if err == nil && revision == 0 {
		err = mqerr.New(mqerr.NotMember, "the group has no member %q", name)
	}
	m.Revision = revision
	return m, err
}

// RenewMember says that a member lives: MemberExpired if it is gone.
func (s *Store) RenewMember(ctx context.Context, m Member) error {
	_, err := patiently(ctx, s, "renewing member "+m.Name, func(ctx context.Context) (*clientv3.LeaseKeepAliveResponse, error) {
		return s.c.KeepAliveOnce(ctx, clientv3.LeaseID(m.Lease))
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return mqerr.New(mqerr.MemberExpired, "member %q was not heard of for %s, or left", m.Name, m.TTL)
	}
	return err
}

// LeaveMember removes a member. That it is gone already is no error.
func (s *Store) LeaveMember(ctx context.Context, group mq.GroupID, name string) error {
	m, err := s.GetMember(ctx, group, name)
	if mqerr.Is(err, mqerr.NotMember) {
		return nil
	}
	if err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = s.c.Revoke(ctx, clientv3.LeaseID(m.Lease)) // takes the key with it, unless it has another lease by now
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return s.failed("removing member "+name, began, err)
	}
	return nil
}

// PutAssignment writes an assignment over the one of a.Revision (0: there is none). false says that the key changed
// meanwhile. Controller only.
func (s *Store) PutAssignment(ctx context.Context, a Assignment) (bool, error) {
	value, err := encode(a)
	if err != nil {
		return false, err
	}
	key := assignmentKey(a.Group)
	ok, _, err := s.commit(ctx, "assigning partitions", []clientv3.Cmp{unchanged(key, a.Revision)}, clientv3.OpPut(key, value))
	return ok, err
}

// ForgetAssignment removes the assignment and the members of a group that is gone or not assigned any more.
// Controller only.
func (s *Store) ForgetAssignment(ctx context.Context, group mq.GroupID) error {
	_, _, err := s.commit(ctx, "forgetting an assignment", nil, clientv3.OpDelete(assignmentKey(group)),
		clientv3.OpDelete(membersPrefix(group), clientv3.WithPrefix()))
	return err
}
