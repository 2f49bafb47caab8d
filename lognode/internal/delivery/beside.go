package delivery

import (
	"encoding/binary"

	"github.com/splashdam/splashdam/shared/mq"
)

// Section numbers what a checkpoint holds beside the groups. Numbers are stored.
type Section uint8

// SectionSchedules is lognode/internal/schedule's.
const SectionSchedules Section = 1

// Beside is the state of another machine over the same journal. It is its owner's to bound: MaxCheckpoint counts the
// groups only.
type Beside struct {
	Section Section
	Data    []byte
}

func appendBeside(b []byte, sections []Beside) []byte {
	b = binary.AppendUvarint(b, uint64(len(sections)))
	for _, s := range sections {
		b = mq.AppendBytes(append(b, byte(s.Section)), s.Data)
	}
	return b
}

func (m *Machine) readBeside(r *mq.Reader) error {
	for range r.Count(2) {
		m.beside = append(m.beside, Beside{Section(r.Byte()), r.Bytes()})
	}
	if r.Err() == nil && r.Len() > 0 {
		r.Fail("%d bytes over", r.Len())
	}
	return r.Err()
}

// TakeBeside gives what the checkpoint that was loaded held for a section, nil for nothing, and forgets it.
func (m *Machine) TakeBeside(s Section) []byte {
	for i := range m.beside {
		if m.beside[i].Section == s {
			data := m.beside[i].Data
			m.beside[i].Data = nil
			return data
		}
	}
	return nil
}
