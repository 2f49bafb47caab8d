package archive

import _ "gocloud.dev/blob/fileblob" // file:///directory
