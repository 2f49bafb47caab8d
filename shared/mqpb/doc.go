// Package mqpb holds the control calls between tiers: the .proto, what protoc makes of it, and the
// conversions to and from shared/mq. Generated types stop at the servers and clients that speak them.
//
// After a change of splashdam.proto run go generate here (it needs protoc, protoc-gen-go and
// protoc-gen-go-grpc); a test says when the generated code is out of date.
package mqpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative splashdam.proto
