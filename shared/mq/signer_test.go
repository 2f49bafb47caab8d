package mq

import "testing"

// A signer's receipts are those of Receipt itself, also the second one with the same signer.
func TestSignerAgreesWithReceipt(t *testing.T) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	s := NewReceiptSigner(7, secret)
	for i := range uint64(3) {
		r := Receipt{Partition: PartitionID{Topic: 3, Number: 1}, Offset: 1 << (20 * i), Group: 9, Segment: 4, Counter: i}
		got := string(s.AppendText(nil, &r))
		if want := string(r.AppendText(nil, secret)); got != want || r.Key != 7 {
			t.Errorf("receipt %d is %s with key %d, want %s", i, got, r.Key, want)
		}
	}
}
