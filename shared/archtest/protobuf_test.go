package archtest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"

	"github.com/splashdam/splashdam/shared/mqpb"
)

// The generated code carries the descriptor that it was made from; a fresh compilation of the .proto must
// give the same one.
func TestGeneratedCodeIsInSync(t *testing.T) {
	compiler := protocompile.Compiler{
		Resolver: &protocompile.SourceResolver{ImportPaths: []string{filepath.Join(root, "shared/mqpb")}},
	}
	compiled, err := compiler.Compile(t.Context(), "splashdam.proto")
	if err != nil {
		t.Fatal(err)
	}
	want := protodesc.ToFileDescriptorProto(compiled[0])
	got := protodesc.ToFileDescriptorProto(mqpb.File_splashdam_proto)
	want.SourceCodeInfo, got.SourceCodeInfo = nil, nil // comments and columns
	if !proto.Equal(want, got) {
		t.Errorf("shared/mqpb is out of date; run go generate ./shared/mqpb. It first differs at:\n%s",
			firstDifference(prototext.Format(want), prototext.Format(got)))
	}

	// The gRPC half comes from another generator: compare its methods by name.
	var methods []string
	for _, m := range mqpb.LogNode_ServiceDesc.Methods {
		methods = append(methods, m.MethodName)
	}
	for _, s := range mqpb.LogNode_ServiceDesc.Streams {
		methods = append(methods, s.StreamName)
	}
	var declared []string
	for _, m := range want.Service[0].Method {
		declared = append(declared, m.GetName())
	}
	slices.Sort(methods)
	slices.Sort(declared)
	if !slices.Equal(methods, declared) {
		t.Errorf("splashdam_grpc.pb.go has the methods %v, the .proto %v", methods, declared)
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) {
			return "the .proto has more: " + w[i]
		}
		// prototext varies its spaces on purpose.
		if strings.Join(strings.Fields(w[i]), " ") != strings.Join(strings.Fields(g[i]), " ") {
			return "line " + w[i] + " of the .proto, " + g[i] + " in the generated code"
		}
	}
	return "the generated code has more"
}
