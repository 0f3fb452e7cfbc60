# SPDX-License-Identifier: MIT
# nix-build -E '(import <nixpkgs> {}).callPackage ./packaging/nix/package.nix {}': from this checkout.
{ lib, stdenv, cmake, ninja, eigen, cli11, nlohmann_json, fmt }:
stdenv.mkDerivation {
  pname = "bitmma";
  version = "0.2.0";
  src = lib.cleanSource ../..;
  nativeBuildInputs = [ cmake ninja ];
  buildInputs = [ eigen cli11 nlohmann_json fmt ];
  cmakeFlags = [ "-DBITMMA_BUILD_TESTS=OFF" "-DBITMMA_FETCH=OFF" ];
  doInstallCheck = true;
  installCheckPhase = ''
    $out/bin/bitmma golden wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 -o made.safetensors
    $out/bin/bitmma verify made.safetensors
  '';
  meta = {
    description = "Bit-exact CPU simulator of NVIDIA's tensor cores";
    license = lib.licenses.mit;
    mainProgram = "bitmma";
    platforms = lib.platforms.linux ++ lib.platforms.darwin;
  };
}
