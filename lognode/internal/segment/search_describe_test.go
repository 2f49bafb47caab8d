package segment

import "fmt"

// describe tells a step of a trace, taken in the state before it.
func (s *search) describe(w *world, st step) string {
	x := &w.links[min(int(st.slot), slots-1)]
	n := st.node
	switch st.kind {
	case doServe:
		return fmt.Sprintf("n%d serves as the leader of segment %d", n, st.slot)
	case doPlace:
		return fmt.Sprintf("the leader of segment %d places an entry at %s", st.slot, x.at(int(n)))
	case doReceive:
		return fmt.Sprintf("n%d takes the entry at %s of segment %d", n, x.reps[n].r.Queued(), st.slot)
	case doDurable:
		return fmt.Sprintf("n%d has the entry at %s of segment %d on disk", n, x.reps[n].r.Tail(), st.slot)
	case doHear:
		return fmt.Sprintf("the leader of segment %d hears n%d acknowledge %s", st.slot, n, x.reps[n].ack)
	case doCrash:
		return fmt.Sprintf("n%d crashes and starts again", n)
	case doLoseSuffix:
		return fmt.Sprintf("n%d starts again and has silently lost the last entry of segment %d", n, st.slot)
	case doWipe:
		return fmt.Sprintf("n%d starts again with an empty directory", n)
	case doRefuse:
		return fmt.Sprintf("n%d has no room for what is queued of segment %d, from %s on", n, st.slot, x.reps[n].r.Tail())
	case doLearnEnd:
		return fmt.Sprintf("n%d learns the end %s of segment %d", n, x.end, st.slot)
	case doCopy:
		return fmt.Sprintf("n%d copies %s of segment %d from n%d", n, x.reps[n].r.Queued(), st.slot, st.x)
	case doReadEtcd:
		return fmt.Sprintf("n%d reads etcd: segment %d is not named", n, st.slot)
	case doProbe:
		return fmt.Sprintf("n%d tells the leader of segment %d that it has the one before up to %s", n, st.slot, x.open.target)
	case doFence:
		return fmt.Sprintf("n%d is asked by the leader of segment %d to seal the one before and to follow nobody earlier", n, st.slot)
	case doLose:
		return fmt.Sprintf("n%d, which leads segment %d, records the one before as lost from %s on", n, st.slot, x.open.held)
	case doRemake:
		return fmt.Sprintf("n%d makes its copy of segment %d anew, empty", n, st.slot)
	case doBreak:
		return fmt.Sprintf("n%d starts again and the entry at %s of segment %d is broken", n, x.at(int(st.x)), st.slot)
	case doRestore:
		return fmt.Sprintf("n%d takes up its copy of segment %d, up to %s, with what others have of it", n, st.slot, x.reps[n].r.Tail())
	case doRemove:
		return fmt.Sprintf("n%d removes segment %d", n, st.slot)
	}
	return s.describeControl(w, st)
}

func (s *search) describeControl(w *world, st step) string {
	k := &w.ctls[st.slot]
	who := fmt.Sprintf("controller %d ", st.slot)
	switch st.kind {
	case doStartSeal:
		return who + fmt.Sprintf("starts to seal segment %d", w.cur)
	case doSeal:
		return who + fmt.Sprintf("asks n%d to seal segment %d (durable %s, queued %s)", st.node, k.seg,
			w.links[k.seg].reps[st.node].r.Tail(), w.links[k.seg].reps[st.node].r.Queued())
	case doCopyEarly:
		return who + fmt.Sprintf("has n%d copy segment %d from n%d, which acknowledges it", st.node, k.seg, st.x)
	case doDecide:
		end, _ := s.ended(&w.links[k.seg], k)
		return who + fmt.Sprintf("decides the end %s of segment %d and proposes segment %d, led by n%d, on nodes %03b",
			end, k.seg, w.next, st.node, st.x)
	case doCreate:
		return who + fmt.Sprintf("has n%d create segment %d", st.node, k.slot)
	case doOpen:
		return who + fmt.Sprintf("swaps: segment %d ended, segment %d open", k.seg, k.slot)
	case doTimeOut:
		return who + fmt.Sprintf("does not hear the outcome of opening segment %d", k.slot)
	case doArrive:
		return who + fmt.Sprintf("opened segment %d: the old swap is applied now", k.flySlot)
	case doDie:
		return who + "dies"
	}
	return who + "does what nobody described"
}
