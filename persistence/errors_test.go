package persistence

import "errors"

// errDisk is what failing disks of the tests say.
var errDisk = errors.New("disk failed on purpose")
