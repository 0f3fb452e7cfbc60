# SPDX-License-Identifier: MIT
# brew install --build-from-source ./packaging/homebrew/bitmma.rb: from the last commit of this checkout.
class Bitmma < Formula
  desc "Bit-exact CPU simulator of NVIDIA's tensor cores"
  license "MIT"
  head "file://#{File.expand_path("../..", __dir__)}", using: :git
  version "0.2.0"

  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "eigen" => :build
  depends_on "fmt" => :build
  depends_on "ninja" => :build
  depends_on "nlohmann-json" => :build

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DBITMMA_BUILD_TESTS=OFF", "-DBITMMA_FETCH=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    system bin/"bitmma", "golden", "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "-o", "made.safetensors"
    system bin/"bitmma", "verify", "made.safetensors"
  end
end
