"""What studies of chapter 7 do with catalogues: acts and shapes, registered in `visir.products.application`."""
